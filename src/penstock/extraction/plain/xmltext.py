"""XML that is no known document format: the text of its elements, one line for each.

Entities are not expanded, except a short one of plain text; nothing outside of the file is ever opened. XML that is not
well formed is read by taking the tags away.
"""

import re
from collections.abc import Mapping
from typing import Any, BinaryIO
from xml.parsers import expat

from penstock.extraction.draft import Allowance, Draft, clean
from penstock.extraction.office.xmltree import local, squeeze
from penstock.extraction.plain.encoding import decode, detect
from penstock.extraction.plain.web import declared_charset, strip_tags
from penstock.extraction.rawbytes import whole
from penstock.extraction.reading import Gap, Reading

_INLINE = frozenset(
    ["a", "b", "i", "u", "em", "strong", "span", "sub", "sup", "code", "tt", "small", "big", "emphasis", "emph",
     "italic", "bold", "ulink", "link", "xref", "ext-link", "tspan", "literal", "quote", "ref", "hi"]
)  # fmt: skip
_UNSEEN = frozenset(["script", "style"])
_TAGS = re.compile(r"</?[A-Za-z][^<>]*>")


def read_xml(file: BinaryIO, media_type: str, arguments: Mapping[str, Any]) -> Reading:
    raw = whole(file, arguments)
    draft, gaps = Draft(Allowance(arguments)), []
    collector = Collector(draft)
    try:
        collector.read(raw)
    except (expat.ExpatError, LookupError, ValueError):  # the latter for an encoding that does not exist
        draft = Draft(Allowance(arguments))
        draft.paragraph(strip_tags(decode(raw, declared_charset(raw)), lines=True))
        gaps.append(Gap(None, "it is not well-formed XML; its text was read without its structure"))
    if collector.unexpanded:
        gaps.append(Gap(None, "it uses XML entities that stand for more than a word; they were left out"))
    if not draft.size:
        for value in collector.values:
            draft.line(value)
    page = draft.page(1)
    if not page.text:
        return Reading(media_type, gaps=[*gaps, Gap(None, "no text in it: it has only empty elements")])
    return Reading(media_type, [page], title=collector.title, gaps=gaps)


class Collector:
    """Writes each element's text as a line; keeps attributes for a file that has nothing else."""

    def __init__(self, draft: Draft) -> None:
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
    """Expat knows few encodings by name; for the others it gets none and decides by the declaration."""
    encoding, _ = detect(raw[:65_536])
    return "utf-8" if encoding == "utf-8" and b"encoding" not in raw[:200] else None
