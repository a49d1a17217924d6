"""Reads structured text: JSON and notebooks, CSV and TSV, and XML that is not a known document format.

JSON becomes lines `key: value`, a notebook its cells, a table lines `a | b | c` whose first one is repeated in each chunk. XML
becomes the text of its elements, one line for each: entities are not expanded, except a short one of plain text, and nothing
outside of the file is opened. A file that is not well formed is read as plain text, and the result has a gap.
"""

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO
from xml.parsers import expat

from penstock.errors import Suspicious
from penstock.extraction.office.xmltree import local, squeeze
from penstock.extraction.result import ExtractedDocument, Gap, PageBuilder, TextAllowance, clean, whole
from penstock.extraction.text_formats.encoding import decode, detect
from penstock.extraction.text_formats.text import JSON_LINES, NOTEBOOK, TSV, structure
from penstock.extraction.text_formats.web import declared_charset, strip_tags

# -- JSON and notebooks -----------------------------------------------------------------------------------------------------


def read_json(file: BinaryIO, media_type: str, arguments: Mapping[str, Any]) -> ExtractedDocument:
    text = decode(whole(file, arguments))
    draft, gaps, title = PageBuilder(TextAllowance(arguments)), [], ""
    try:
        value = [_load(line) for line in text.splitlines() if line.strip()] if media_type == JSON_LINES else _load(text)
    except ValueError:
        draft.paragraph(text)
        gaps.append(Gap(None, "it is not valid JSON: it was read as plain text"))
    else:
        if media_type == NOTEBOOK and isinstance(value, dict) and isinstance(value.get("cells"), list):
            title = _write_cells(value["cells"], draft)
        else:
            _write_lines(value, draft)
    page = draft.page(1)
    if not page.text:
        return ExtractedDocument(media_type, gaps=[Gap(None, "no text in it: it has no values"), *gaps])
    return ExtractedDocument(media_type, [page], title=title, gaps=gaps)


def _load(text: str) -> Any:
    try:
        return json.loads(text, parse_int=str, parse_float=str, parse_constant=str)
    except RecursionError as error:
        raise Suspicious("The file nests more lists into each other than any program writes.") from error


def _write_lines(value: Any, draft: PageBuilder) -> None:
    """Write lines `key: value`; items of a list that are not plain values are separated by blank lines."""
    for key, leaf, apart in _leaves(value):
        line = f"{key}: {leaf}" if key and leaf else key + (":" if key else "") + leaf
        if apart:
            draft.paragraph(line)
        else:
            draft.line(line)


def _leaves(value: Any) -> Iterator[tuple[str, str, bool]]:
    waiting: list[tuple[str, Any, bool]] = [("", value, False)]
    while waiting:
        key, item, apart = waiting.pop()
        if isinstance(item, dict):
            if key:
                yield key, "", apart
            inner = [
                (clean(str(name)), child, apart and not key and number == 0)
                for number, (name, child) in enumerate(item.items())
            ]
            waiting += reversed(inner)
        elif isinstance(item, list):
            if all(not isinstance(child, dict | list) for child in item):
                yield key, ", ".join(filter(None, map(_words, item))), apart
            else:
                if key:
                    yield key, "", apart
                waiting += [("", child, True) for child in reversed(item)]
        else:
            yield key, _words(item), apart


def _words(value: Any) -> str:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _write_cells(cells: list[Any], draft: PageBuilder) -> str:
    """Write the cells in order, with the output of code; return the first heading."""
    title = ""
    for cell in cells:
        if not isinstance(cell, dict):
            continue
        source = _joined(cell.get("source"))
        if cell.get("cell_type") == "markdown":
            title = _write_markdown(source, draft, title)
        else:
            draft.paragraph(source)
        for output in cell.get("outputs") or []:
            draft.paragraph(_output(output) if isinstance(output, dict) else "")
    return title


def _write_markdown(source: str, draft: PageBuilder, title: str) -> str:
    source = clean(source)
    at = 0
    for heading in structure(source)[0]:
        draft.paragraph(source[at : heading.start])
        draft.heading(heading.title, heading.level)
        title = title or heading.title
        at = source.find("\n", heading.start)
        at = len(source) if at < 0 else at
    draft.paragraph(source[at:])
    return title


def _output(output: dict[str, Any]) -> str:
    shown = output.get("data")
    text = shown.get("text/plain") if isinstance(shown, dict) else None
    return _joined(output.get("text") or text or output.get("evalue"))


def _joined(source: Any) -> str:
    return "".join(map(str, source)) if isinstance(source, list) else source if isinstance(source, str) else ""


# -- CSV and TSV ------------------------------------------------------------------------------------------------------------

_SEPARATORS = ",;\t|"


def read_separated(file: BinaryIO, media_type: str, arguments: Mapping[str, Any]) -> ExtractedDocument:
    text = clean(decode(whole(file, arguments)))
    draft, gaps = PageBuilder(TextAllowance(arguments)), []
    csv.field_size_limit(2**31 - 1)
    separator = "\t" if media_type == TSV and "\t" in text else likely_separator(text)
    try:
        draft.table(csv.reader(io.StringIO(text), delimiter=separator))
    except csv.Error:
        draft = PageBuilder(TextAllowance(arguments))
        draft.paragraph(text)
        gaps.append(Gap(None, "its rows and columns were not recognised: it was read as plain text"))
    page = draft.page(1)
    if not page.text:
        return ExtractedDocument(media_type, gaps=[Gap(None, "no text in it: all cells are empty")])
    return ExtractedDocument(media_type, [page], gaps=gaps)


def likely_separator(text: str) -> str:
    """The separator that most of the first lines have equally often, outside of quotes."""
    lines = [line for line in text[:20_000].split("\n")[:50] if line.strip()]
    scores = {separator: _evenness([_count(line, separator) for line in lines]) for separator in _SEPARATORS}
    best = max(scores, key=lambda separator: scores[separator])
    return best if scores[best] else ","


def _count(line: str, separator: str) -> int:
    return sum(part.count(separator) for part in line.split('"')[::2])


def _evenness(counts: list[int]) -> float:
    present = [count for count in counts if count]
    if not present:
        return 0
    usual = max(set(present), key=present.count)
    return present.count(usual) / len(counts) * min(usual, 5)


# -- XML --------------------------------------------------------------------------------------------------------------------

_INLINE = frozenset(
    ["a", "b", "i", "u", "em", "strong", "span", "sub", "sup", "code", "tt", "small", "big", "emphasis", "emph",
     "italic", "bold", "ulink", "link", "xref", "ext-link", "tspan", "literal", "quote", "ref", "hi"]
)  # fmt: skip
_UNSEEN = frozenset(["script", "style"])
_TAGS = re.compile(r"</?[A-Za-z][^<>]*>")


def read_xml(file: BinaryIO, media_type: str, arguments: Mapping[str, Any]) -> ExtractedDocument:
    raw = whole(file, arguments)
    draft, gaps = PageBuilder(TextAllowance(arguments)), []
    collector = ElementTextCollector(draft)
    try:
        collector.read(raw)
    except (expat.ExpatError, LookupError, ValueError):  # the latter for an encoding that does not exist
        draft = PageBuilder(TextAllowance(arguments))
        draft.paragraph(strip_tags(decode(raw, declared_charset(raw)), lines=True))
        gaps.append(Gap(None, "it is not well-formed XML: its text was read without its structure"))
    if collector.unexpanded:
        gaps.append(Gap(None, "it uses XML entities that stand for more than a word: they were left out"))
    if not draft.size:
        for value in collector.values:
            draft.line(value)
    page = draft.page(1)
    if not page.text:
        return ExtractedDocument(media_type, gaps=[*gaps, Gap(None, "no text in it: it has only empty elements")])
    return ExtractedDocument(media_type, [page], title=collector.title, gaps=gaps)


class ElementTextCollector:
    """Writes each element's text as a line; keeps attributes for a file that has nothing else."""

    def __init__(self, draft: PageBuilder) -> None:
        self.title = ""
        self.values: list[str] = []
        self.unexpanded = False
        self._draft = draft
        self._words: list[str] = []
        self._entities: dict[str, str] = {}
        self._unseen = 0

    def read(self, raw: bytes) -> None:
        parser = expat.ParserCreate(_declared(raw), namespace_separator=" ")
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._words.append
        parser.EntityDeclHandler = self._entity
        parser.DefaultHandler = self._other  # with it, expat hands us references instead of expanding them
        parser.Parse(raw, True)
        self._flush()

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        tag = local(name).lower()
        if tag not in _INLINE:
            self._flush()
        self._unseen += tag in _UNSEEN
        if len(self.values) < 100_000:
            self.values += [value for value in attributes.values() if value.strip()]

    def _end(self, name: str) -> None:
        tag = local(name).lower()
        if tag in ("title", "article-title") and not self.title:
            self.title = squeeze("".join(self._words))[:1000]
        if tag not in _INLINE:
            self._flush()
        self._unseen -= tag in _UNSEEN

    def _entity(self, name: str, parameter: bool, value: str | None, *_: object) -> None:
        if not parameter and value is not None and len(value) <= 200 and "&" not in value and "<" not in value:
            self._entities.setdefault(name, value)

    def _other(self, text: str) -> None:
        if text.startswith("&") and text.endswith(";"):
            value = self._entities.get(text[1:-1])
            self.unexpanded |= value is None
            self._words.append(value or "")

    def _flush(self) -> None:
        text = "".join(self._words)
        self._words.clear()
        if self._unseen or not text.strip():
            return
        if _TAGS.search(text):  # a web page inside of an element, as feeds and reports have them
            self._draft.paragraph(strip_tags(text))
        else:
            self._draft.line("\n".join(filter(None, map(squeeze, clean(text).split("\n\n")))))


def _declared(raw: bytes) -> str | None:
    """Expat knows few encodings by name; for the others it decides by the declaration."""
    encoding, _ = detect(raw[:65_536])
    return "utf-8" if encoding == "utf-8" and b"encoding" not in raw[:200] else None
