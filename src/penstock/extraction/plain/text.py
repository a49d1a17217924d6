"""Plain text and Markdown: decoded, and kept as they are. Markdown's headings and tables are found by their marks."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from penstock.extraction.draft import Allowance, clean
from penstock.extraction.plain.encoding import decode
from penstock.extraction.plain.textkind import MARKDOWN
from penstock.extraction.rawbytes import whole
from penstock.extraction.reading import MARKS, Gap, Heading, Page, Reading, Table

_LONGEST_LINE = 4_000  # of a heading or of the line below a table's header; some patterns are slow on longer ones
_FENCE = re.compile(r" {0,3}(```+|~~~+)")
_ATX = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*$")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*$")
_RULE = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")


def read_text(file: BinaryIO, media_type: str, arguments: Mapping[str, Any]) -> Reading:
    text = clean(decode(whole(file, arguments)))
    Allowance(arguments).spend(len(text))
    if not text.strip():
        return Reading(media_type, gaps=[Gap(None, "no text in it: it holds only white space")])
    if media_type != MARKDOWN:
        return Reading(media_type, [Page(1, text)])
    headings, tables = structure(text)
    title = next((heading.title for heading in headings if heading.level == 1), "")
    return Reading(media_type, [Page(1, text, headings, tables)], title=title)


def structure(text: str) -> tuple[list[Heading], list[Table]]:
    """Headings and tables of a Markdown text, outside of its code blocks."""
    headings: list[Heading] = []
    tables: list[Table] = []
    before = (0, "")
    for start, line, rest in _plain_lines(text):
        if len(line) > _LONGEST_LINE or (tables and start < tables[-1].stop):
            continue
        if found := _ATX.match(line):
            headings.append(Heading(start, len(found[1]), _unmarked(found[2])))
        elif (
            (found := _UNDERLINE.match(line))
            and before[1].strip()
            and "|" not in before[1]
            and before[0] + len(before[1]) + 1 == start
        ):
            headings.append(Heading(before[0], 1 if found[1][0] == "=" else 2, _unmarked(before[1])))
        elif "|" in line and "-" in line and _RULE.match(line) and "|" in before[1]:
            tables.append(Table(before[0], _table_end(text, rest), before[1].strip()[:10_000]))
        before = (start, line)
    return [heading for heading in headings if heading.title][:MARKS], tables[:MARKS]


def _plain_lines(text: str) -> Iterator[tuple[int, str, int]]:
    """Start, line, and where the next one starts, without what is fenced."""
    at, fence = 0, ""
    while at < len(text):
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        line = text[at:end]
        mark = _FENCE.match(line)
        if mark and not fence:
            fence = mark[1]
        elif fence:
            if mark and mark[1].startswith(fence) and line.strip() == mark[1]:
                fence = ""
        else:
            yield at, line, end + 1
        at = end + 1


def _table_end(text: str, at: int) -> int:
    """The end of the last line in a row that has a bar."""
    end = min(at, len(text))
    while at < len(text):
        stop = text.find("\n", at)
        stop = len(text) if stop < 0 else stop
        if "|" not in text[at:stop]:
            break
        end, at = stop, stop + 1
    return end


def _unmarked(title: str) -> str:
    """A heading's words, without emphasis and the targets of links."""
    title = re.sub(r"!?\[([^\[\]]*)\]\([^()]*\)", r"\1", title.strip()[:1000])
    return re.sub(r"[*`]|(?<!\w)_+|_+(?!\w)", "", title).strip()[:1000]
