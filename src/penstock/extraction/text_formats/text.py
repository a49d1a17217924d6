"""Identifies the format of a text (web page, XML, mail, JSON, table, Markdown, plain), and reads plain text and Markdown.

What the text itself proves (a web page, a mail, JSON) counts more than its name. Markdown and tables resemble plain text, so
they are identified by their name, or when nearly every line agrees. Plain text and Markdown are kept as they are; headings and
tables of Markdown are found by their marks.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, BinaryIO

from penstock.extraction.result import MARKS, ExtractedDocument, Gap, Heading, Page, Table, TextAllowance, clean, whole
from penstock.extraction.text_formats.encoding import decode
from penstock.text import counted

HTML, XML, MAIL = "text/html", "application/xml", "message/rfc822"
JSON, JSON_LINES, NOTEBOOK = "application/json", "application/x-ndjson", "application/x-ipynb+json"
CSV, TSV, MARKDOWN, PLAIN = "text/csv", "text/tab-separated-values", "text/markdown", "text/plain"
MBOX, SVG = "application/mbox", "image/svg+xml"

_BY_NAME = {
    ".csv": CSV, ".tsv": TSV, ".tab": TSV, ".md": MARKDOWN, ".markdown": MARKDOWN, ".mdown": MARKDOWN, ".mkd": MARKDOWN,
    ".txt": PLAIN, ".text": PLAIN, ".log": PLAIN, ".rst": PLAIN,
}  # fmt: skip
_PREAMBLE = re.compile(r"(?:\s+|<!--.*?-->|<\?.*?\?>)*", re.DOTALL)
_HTML_START = re.compile(
    r"<(?:!doctype\s+html|html|head|body|title|meta|link|script|style|div|p|table|h[1-6]|span|ul|ol|dl|a|br|hr|b|i|em|"
    r"strong|img|font|center|section|article|main|header|footer|nav|pre|blockquote|form|iframe|frameset)\b",
    re.IGNORECASE,
)
_HTML_TAG = re.compile(r"<(?:html|head|body|div|p|table|tr|td|h[1-6]|span|ul|li|a|br|img|b|i)\b[^<>]*>", re.IGNORECASE)
_XML_START = re.compile(r"<(?:!DOCTYPE|!\[CDATA\[|[A-Za-z_][\w.:-]*[\s/>])")
_FIELD = re.compile(r"([!-9;-~]{1,76})\s?:(?:\s|$)")
_MAIL_FIELDS = frozenset(
    ["from", "to", "cc", "subject", "date", "received", "return-path", "message-id", "mime-version", "delivered-to", "reply-to",
     "content-type", "content-transfer-encoding", "sender", "x-mailer", "in-reply-to", "references", "dkim-signature"]
)  # fmt: skip
_SURE_FIELDS = frozenset(["received", "return-path", "message-id", "mime-version", "delivered-to", "dkim-signature"])
_CELL_SHAPES = (("\t", TSV), (",", CSV), (";", CSV))


def identify_text(head: str, tail: str, name: str) -> str:
    suffix = PurePosixPath(name.lower()).suffix
    head = head.lstrip("\ufeff")
    if suffix in (".md", ".markdown", ".mdown", ".mkd") and not head.lstrip().lower().startswith(
        ("<!doctype html", "<html")
    ):
        return MARKDOWN  # begins with a tag, with JSON or with fields (front matter) as often as not
    return (
        _mail(head, suffix)
        or _markup(head, suffix)
        or _json(head, tail, suffix)
        or _BY_NAME.get(suffix, "")
        or _shape(head)
    )


def _mail(head: str, suffix: str) -> str:
    mbox = head.startswith("From ") and re.match(r"From \S+ .*\d{2}:\d{2}", head) is not None
    fields = _fields(head.split("\n", 1)[1] if mbox and "\n" in head else head)
    mail = fields & _MAIL_FIELDS
    if mbox and len(mail) >= 2:
        return MBOX
    if len(mail) >= 3 or (len(mail) >= 2 and fields & _SURE_FIELDS) or (mail and suffix in (".eml", ".mht", ".mhtml")):
        return MAIL
    return ""


def _fields(head: str) -> set[str]:
    """Names of the fields before the first blank line; empty when a line there is not a field."""
    names: set[str] = set()
    for line in head.lstrip("\r\n").splitlines()[:500]:
        if not line.strip():
            break
        if line[0] in " \t" and names:
            continue
        field = _FIELD.match(line)
        if field is None:
            return names if len(names) > 4 else set()  # a broken line in an otherwise clear header
        names.add(field[1].lower())
    return names


def _markup(head: str, suffix: str) -> str:
    body = head[_PREAMBLE.match(head).end() :]  # type: ignore[union-attr]  # matches nothing, too
    declared = head.lstrip().startswith("<?xml")
    if not body.startswith("<"):
        tags = len(_HTML_TAG.findall(head[:4096]))
        if tags > 20 or (tags > 1 and suffix in (".html", ".htm", ".xhtml")):
            return HTML
        return XML if declared else ""
    page = re.match(r"<!doctype\s+html|<html", body, re.IGNORECASE) if declared else _HTML_START.match(body)
    if page:
        return HTML
    if re.match(r"<(?:\w+:)?svg\b|<!DOCTYPE svg", body):
        return SVG
    if declared or _XML_START.match(body):
        return HTML if suffix in (".html", ".htm") and not declared else XML
    return HTML if suffix in (".html", ".htm") else ""


def _json(head: str, tail: str, suffix: str) -> str:
    start, end = head.lstrip()[:1], tail.rstrip()[-1:]
    if start + end not in ("{}", "[]"):
        return ""
    if suffix in (".jsonl", ".ndjson"):
        return JSON_LINES
    if not re.match(r'\s*(?:\{\s*(?:"|\})|\[\s*(?:["{\[\]\d-]|true|false|null))', head):
        return ""
    if suffix == ".ipynb" or ('"cells"' in head and '"nbformat' in head + tail):
        return NOTEBOOK
    first = head.lstrip().split("\n", 1)
    lines = len(first) > 1 and first[0].rstrip().endswith("}") and first[1].lstrip().startswith("{")
    return JSON_LINES if lines else JSON


def _shape(head: str) -> str:
    """A table when all lines have the same number of separators, Markdown when many lines have its marks."""
    lines = [line for line in head.splitlines()[:-1] if line.strip()][:50]
    for separator, media_type in _CELL_SHAPES:
        counts = {line.count(separator) for line in lines}
        if len(lines) >= 5 and len(counts) == 1 and min(counts) >= 2:
            return media_type
    marks = sum(1 for line in lines if re.match(r"#{1,6} \S|```|[-*] \S|\|.*\|$|\[.+\]\(.+\)", line))
    headings = sum(1 for line in lines if re.match(r"#{1,6} \S", line))
    return MARKDOWN if headings >= 2 and marks >= 0.2 * len(lines) else PLAIN


# -- plain text and Markdown ------------------------------------------------------------------------------------------------

_LONGEST_LINE = 4_000  # of a heading or of the line below a table's header; some patterns are slow on longer ones
_FENCE = re.compile(r" {0,3}(```+|~~~+)")
_ATX = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*$")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*$")
_RULE = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")


def read_text(file: BinaryIO, media_type: str, arguments: Mapping[str, Any]) -> ExtractedDocument:
    raw = whole(file, arguments)
    text = clean(decode(raw))
    TextAllowance(arguments).spend(len(text))
    if not text.strip():
        return ExtractedDocument(media_type, gaps=[Gap(None, "no text in it: it holds only white space")])
    gaps = undecoded(raw, text)
    if media_type != MARKDOWN:
        return ExtractedDocument(media_type, [Page(1, text)], gaps=gaps)
    headings, tables = structure(text)
    title = next((heading.title for heading in headings if heading.level == 1), "")
    return ExtractedDocument(media_type, [Page(1, text, headings, tables)], title=title, gaps=gaps)


def undecoded(raw: bytes, text: str) -> list[Gap]:
    """A gap if bytes could not be decoded; a replacement character that is in the file itself is text."""
    lost = text.count("\ufffd") - raw.count("\ufffd".encode())
    if lost <= 0:
        return []
    return [Gap(None, f"{counted(lost, 'character')} could not be decoded: save the file as UTF-8 and add it again")]


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
