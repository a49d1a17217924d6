"""Real documents of other projects: nearly all words of the good ones, an end with a reason for the hostile ones.

What is read is compared with extractors that share no code with ours: a scan of the XML for Office files, the standard library
for mails and web pages, the bytes themselves for texts. Without `shared/corpus` beside the project there is nothing to compare.
"""

import email
import email.policy
import html.parser
import io
import json
import re
import time
import zipfile
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest

from penstock.errors import Unreadable
from penstock.extraction.dispatch import read_document
from penstock.extraction.result import ExtractedDocument
from tests.extraction import sample_files
from tests.extraction.corpus import CORPUS

_OTHERS = {".pdf", ".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".webp", ".gif"}
_NO_TEXT = {  # and why
    "tika-testMSChart-govdocs-428996.xls": "empty",
    "tika-testMasterFooter.odp": "only images",
    "tika-testODSMacro.ods": "only images",
    "unstructured-empty.xlsx": "empty",
    "unstructured-fake-text-all-whitespace.txt": "white space",
    "unstructured-picture.pptx": "only images",
}
_CONTENT_PARTS = (
    r"word/(?:document|footnotes|endnotes)\d*\.xml|ppt/(?:slides|notesSlides)/\w+\.xml|xl/(?:sharedStrings|comments\d*)\.xml"
    r"|content\.xml"
)
_HIDDEN_TAGS = {"script", "style", "nav", "noscript", "title", "svg", "template", "head", "select", "iframe"}

pytestmark = pytest.mark.skipif(not CORPUS.is_dir(), reason=f"{CORPUS} is not there")


def files(folder: str) -> list[Path]:
    return [path for path in sorted((CORPUS / folder).glob("*")) if path.suffix.lower() not in _OTHERS]


def read(path: Path) -> ExtractedDocument:
    with path.open("rb") as file:
        return read_document(file, sample_files.arguments(path.name))


def words(text: str) -> Counter[str]:
    return Counter(re.findall(r"\w+", text.lower().replace("\xad", "")))


def recall(reading: ExtractedDocument, truth: str) -> float:
    """The share of the true words that were read; a word that is there five times must have been read five times."""
    wanted = words(truth)
    found = words(sample_files.text_of(reading) + "\n" + reading.title)
    return (wanted & found).total() / wanted.total() if wanted else 1.0


def paragraphs_in_xml(path: Path) -> str:
    """All text of the parts that hold content, by the standard library's parser."""
    texts = []
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if re.fullmatch(_CONTENT_PARTS, name):
                root = ElementTree.fromstring(archive.read(name))
                texts += [_own_text(paragraph) for paragraph in root.iter() if _tag(paragraph) in ("p", "h", "si")]
    return "\n".join(texts)


def _tag(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def _own_text(paragraph: ElementTree.Element) -> str:
    """Without that of paragraphs inside of it, of formulas (they become TeX), and of who has commented when."""
    pieces = [paragraph.text or ""]
    for child in paragraph:
        if _tag(child) in ("br", "tab", "line-break", "s"):
            pieces.append(" ")
        elif _tag(child) not in (
            "p",
            "h",
            "oMath",
            "oMathPara",
            "creator",
            "date",
            "instrText",
            "delText",
            "Fallback",
            "fld",
        ):
            pieces.append(_own_text(child))
        pieces.append(child.tail or "")
    return "".join(pieces)


class Shown(html.parser.HTMLParser):
    """The text of a page that is shown."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._hidden: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag in _HIDDEN_TAGS:
            self._hidden.append(tag)
        elif tag in ("p", "div", "br", "li", "td", "th", "tr", "h1", "h2", "h3", "pre"):
            self.texts.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag in self._hidden:
            del self._hidden[self._hidden.index(tag) :]

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.texts.append(data)


def shown(page: str) -> str:
    parser = Shown()
    parser.feed(page)
    return "".join(parser.texts)


def mail_text(path: Path) -> str:
    message = email.message_from_bytes(path.read_bytes(), policy=email.policy.default)
    body = message.get_body(("plain", "html"))
    if body is None:
        return str(message["subject"])
    content = body.get_content()
    return f"{message['subject']} {message['from']}\n" + (
        shown(content) if body.get_content_subtype() == "html" else content
    )


def plain(path: Path) -> str:
    raw = path.read_bytes()
    return raw.decode("utf-16" if raw.startswith(b"\xff\xfe") else "utf-8", "replace")


def json_strings(path: Path) -> str:
    texts: list[str] = []
    waiting = [json.loads(plain(path))]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
        else:
            texts.append(str(value) if isinstance(value, str) else "")
    return "\n".join(texts)


def xml_texts(path: Path) -> str:
    text = "\n".join(ElementTree.fromstring(path.read_bytes()).itertext())
    return shown(text) if "</" in text else text


def book_text(path: Path) -> str:
    with zipfile.ZipFile(path) as archive:
        pages = [
            name
            for name in archive.namelist()
            if name.endswith((".xhtml", ".html", ".htm")) and "nav" not in name and "toc" not in name
        ]
        return "\n".join(shown(archive.read(name).decode("utf-8", "replace")) for name in pages)


_TRUTH = {
    **dict.fromkeys([".docx", ".pptx", ".xlsx", ".odt", ".odp", ".ods"], paragraphs_in_xml),
    **dict.fromkeys([".txt", ".md", ".csv", ".tsv"], plain),
    ".html": lambda path: shown(plain(path)),
    ".htm": lambda path: shown(plain(path)),
    ".eml": mail_text,
    ".json": json_strings,
    ".xml": xml_texts,
    ".epub": book_text,
}


@pytest.mark.parametrize("path", files("good"), ids=lambda path: path.name)
def test_good_documents_are_read(path: Path) -> None:
    reading = read(path)
    text = sample_files.text_of(reading)
    if path.name in _NO_TEXT:
        assert not text and _NO_TEXT[path.name] in reading.gaps[0].reason
        return
    assert text.strip()
    truth = _TRUTH.get(path.suffix)
    if truth is None:
        return
    try:
        wanted = truth(path)
    except json.JSONDecodeError:
        wanted = plain(path)
    assert recall(reading, wanted) >= 0.95, sorted((words(wanted) - words(text)).elements())[:30]


@pytest.mark.parametrize("path", files("hostile"), ids=lambda path: path.name)
def test_hostile_documents_end_with_a_reason(path: Path) -> None:
    began = time.process_time()
    try:
        reading = read(path)
    except Unreadable as error:
        sentence = str(error)
        assert 10 < len(sentence) < 300 and "\n" not in sentence and "Traceback" not in sentence
    else:
        assert sample_files.text_of(reading).strip() or reading.gaps
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    "name", ["passtika", "protect.xlsx", "password.xls", "Encrypted.odt", "fake-encrypted", "normal_case", "drm"]
)
def test_encrypted_documents_say_so(name: str) -> None:
    found = [path for path in files("hostile") if name in path.name]
    assert found
    for path in found:
        with pytest.raises(Unreadable, match=r"^encrypted: "):
            read(path)


@pytest.mark.parametrize(
    "path", [path for path in files("good") if path.stat().st_size < 60_000], ids=lambda path: path.name
)
def test_cut_and_bent_documents_end(path: Path) -> None:
    """Half of it, and one bent byte in every kilobyte: a reading or a reason, nothing else."""
    raw = path.read_bytes()
    bent = bytearray(raw)
    for at in range(300, len(bent), 1_009):
        bent[at] ^= 0x55
    for damaged in (raw[: len(raw) // 2], bytes(bent)):
        try:
            reading = read_document(io.BytesIO(damaged), sample_files.arguments(path.name))
        except Unreadable as error:
            assert str(error)
        else:
            assert isinstance(reading.encode(), dict)
