"""Which kind of text a text is: a web page, XML, a mail, JSON, a table, Markdown, or just text.

What the text itself proves (a web page, a mail, JSON) counts more than the name. Markdown and tables look like plain text
too easily to be found without one, except when every line agrees.
"""

import re
from pathlib import PurePosixPath

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
    """Names of the fields before the first blank line; none at all when a line there is no field."""
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
    """A table when many lines have the same number of separators; Markdown when its marks are everywhere."""
    lines = [line for line in head.splitlines()[:-1] if line.strip()][:50]
    for separator, media_type in _CELL_SHAPES:
        counts = {line.count(separator) for line in lines}
        if len(lines) >= 5 and len(counts) == 1 and min(counts) >= 2:
            return media_type
    marks = sum(1 for line in lines if re.match(r"#{1,6} \S|```|[-*] \S|\|.*\|$|\[.+\]\(.+\)", line))
    headings = sum(1 for line in lines if re.match(r"#{1,6} \S", line))
    return MARKDOWN if headings >= 2 and marks >= 0.2 * len(lines) else PLAIN
