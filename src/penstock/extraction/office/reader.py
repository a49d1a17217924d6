"""Reads Word, Excel, OpenDocument text and tables, RTF, EPUB and the binary formats before 2007 with kreuzberg.

Kreuzberg returns a tree of headings, paragraphs, lists and tables, and omits some text: footnotes, text boxes, comments.
omissions.py finds it in the formats that are XML inside; `missing_texts` finds it in old Excel files. A sheet is a page.
"""

import io
import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO

from penstock.errors import Corrupt, Encrypted, Suspicious
from penstock.extraction.office import omissions
from penstock.extraction.office.compound import DOC, MAGIC, PPT, XLS, CompoundFile
from penstock.extraction.office.package import DOCX, EPUB, LOCKED, ODS, ODT, XLSB, XLSX, Package
from penstock.extraction.result import ExtractedDocument, Gap, Page, PageBuilder, TextAllowance, one_line, refuse_pages
from penstock.extraction.text_formats.web import DEEPEST, nesting

if TYPE_CHECKING:
    from kreuzberg import ExtractionResult


# -- binary formats ---------------------------------------------------------------------------------------------------------

_WORD = re.compile(r"\w+")
_FIELD = re.compile(
    r'\b(?:HYPERLINK|INCLUDEPICTURE)(?: \\\w)*\s+"[^"\n”]{0,2000}["”](?: \\\w+)*\s?|\bEMBED (?:Package|[A-Z]\w+\.\w+(?:\.\d+)?)'
)
_CONTINUED, _TEXT_OBJECT, _SERIES_TEXT = 0x3C, 0x1B6, 0x100D


def padded(raw: bytes) -> bytes:
    """Pad the file to the length of its allocation table: some writers omit free sectors at the end, kreuzberg needs them."""
    if not raw.startswith(MAGIC) or len(raw) < 512:
        return raw
    sector = 1 << min(struct.unpack("<H", raw[30:32])[0], 12)
    tables = min(struct.unpack("<I", raw[44:48])[0], len(raw) // sector + 1)
    return raw + bytes(max(0, (tables * (sector // 4) + 1) * sector - len(raw)))


def without_fields(text: str) -> str:
    """Remove Word's field instructions, which old files keep between the words."""
    return _FIELD.sub("", text) if "HYPERLINK" in text or "EMBED" in text or "INCLUDEPICTURE" in text else text


def missing_texts(file: BinaryIO, media_type: str, pages: Iterable[Page]) -> Iterator[str]:
    """Text boxes and the words of charts in an old Excel file."""
    if media_type != XLS:
        return
    known = set(_WORD.findall("\n".join(page.text for page in pages).lower()))
    try:
        tree = CompoundFile(file)
    except Corrupt:
        return
    given: set[str] = set()
    for text in _box_texts(tree.read("workbook") or tree.read("book")):
        if text not in given and not known.issuperset(_WORD.findall(text.lower())):
            given.add(text)
            yield text


def _box_texts(book: bytes) -> Iterator[str]:
    stream = io.BytesIO(book)
    wanted = False
    while len(head := stream.read(4)) == 4:
        record, length = struct.unpack("<HH", head)
        body = stream.read(length)
        if record == _CONTINUED and wanted and body:
            yield _characters(body[1:], wide=bool(body[0] & 1))
        elif record == _SERIES_TEXT and len(body) > 4:
            yield _characters(body[4:], wide=bool(body[3] & 1))
        wanted = record == _TEXT_OBJECT and len(body) >= 12 and struct.unpack("<H", body[10:12])[0] > 0


def _characters(raw: bytes, *, wide: bool) -> str:
    return raw.decode("utf-16-le" if wide else "latin-1", "replace").strip()


# -- all formats ------------------------------------------------------------------------------------------------------------

_SHEETS = frozenset([XLSX, XLSB, XLS, ODS])
_PAGED = _SHEETS | {PPT}
_ZIPPED = frozenset([DOCX, XLSX, XLSB, ODT, ODS, EPUB])
_SWEPT = frozenset([DOCX, XLSX, ODT, ODS])
_EXCEL_BY_KREUZBERG = {XLSB: "application/vnd.ms-excel.sheet.binary.macroEnabled.12"}
_SPREAD = "the cells of this sheet are far apart: its dates may be shown as numbers"
_SHEET = re.compile(rb"<(?:\w+:)?sheet\s")
_PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".emf", ".wmf", ".bmp", ".tiff", ".svg")
_FACTS = {
    "created_at": "created",
    "modified_at": "changed",
    "subject": "subject",
    "publisher": "publisher",
    "description": "description",
}


def read_office(file: BinaryIO, media_type: str, arguments: Mapping[str, Any]) -> ExtractedDocument:
    if media_type in _ZIPPED:
        package = Package(file, arguments)
        package.weigh()
        _refuse_deep_pages(package)
        refuse_pages(len(_SHEET.findall(package.read("xl/workbook.xml"))), arguments)
    swept = omissions.collect(Package(file, arguments), cells=False) if media_type in _SWEPT else []
    allowance, gaps = TextAllowance(arguments), []
    damage: Corrupt | None = None
    try:
        pages, metadata = _read(file, media_type, allowance)
    except Corrupt as error:
        pages, metadata, damage = [], {}, error  # its XML may still be read
        swept = omissions.collect(Package(file, arguments), cells=True) if media_type in _SWEPT else []
        gaps.append(Gap(None, "it is damaged: its text was read without its structure"))
    if media_type == XLSX and damage is None:
        found = {page.number for page in pages}
        skipped = list(omissions.skipped_sheets(Package(file, arguments), found, allowance))
        gaps += [Gap(page.number, _SPREAD) for page in skipped]
        pages = sorted([*pages, *skipped], key=lambda page: page.number)
    missing = omissions.missing(swept, pages) if media_type in _SWEPT else missing_texts(file, media_type, pages)
    pages = _with_missing(pages, missing, allowance, flowing=media_type not in _PAGED)
    if not pages:
        if damage is not None:
            raise damage
        gaps.append(Gap(None, _reason(file, media_type, arguments)))
    return ExtractedDocument(media_type, pages, title=_title(metadata), facts=_facts(metadata), gaps=gaps)


def _read(file: BinaryIO, media_type: str, allowance: TextAllowance) -> tuple[list[Page], dict[str, Any]]:
    """The pages and the metadata."""
    if media_type in _SHEETS:
        result = _extract(file, media_type, nodes=False)
        return _sheets(result, allowance), dict(result.metadata)
    result = _extract(file, media_type, nodes=True)
    nodes = _nodes(result)
    return (_slides(nodes, allowance) if media_type == PPT else _flow(nodes, allowance)), dict(result.metadata)


def paragraphs(file: BinaryIO, media_type: str) -> list[str]:
    """The text alone."""
    nodes = _nodes(_extract(file, media_type, nodes=True))
    return [node["content"].get("text") or "" for node in nodes if node["content"]["node_type"] == "paragraph"]


def _extract(file: BinaryIO, media_type: str, *, nodes: bool) -> "ExtractionResult":
    """Read it with kreuzberg; sheets without nodes, which take a kilobyte for each cell."""
    import kreuzberg

    options: dict[str, Any] = {"disable_ocr": True, "include_document_structure": nodes, "output_format": "plain"}
    config = kreuzberg.ExtractionConfig(use_cache=False, enable_quality_processing=False, **options)
    file.seek(0)
    raw = padded(file.read()) if media_type in (DOC, XLS) else file.read()
    try:
        return kreuzberg.extract_bytes_sync(raw, _EXCEL_BY_KREUZBERG.get(media_type, media_type), config)
    except BaseException as error:  # a panic of Rust is not an Exception
        if isinstance(error, KeyboardInterrupt | SystemExit | MemoryError):
            raise
        words = one_line(str(error)).lower()
        if "password" in words or "encrypted" in words:
            raise Encrypted(LOCKED) from error
        raise Corrupt("damaged: the file cannot be read in the format that it claims to have") from error


def _nodes(result: "ExtractionResult") -> list[dict[str, Any]]:
    structure: Any = result.document
    return list(structure["nodes"]) if structure else []


def _flow(nodes: list[dict[str, Any]], allowance: TextAllowance) -> list[Page]:
    """One page. Kreuzberg reserves level 1 for a title, which many documents do not have."""
    levels = [node["content"].get("level", 1) for node in nodes if node["content"]["node_type"] in ("heading", "title")]
    draft = PageBuilder(allowance, above=min(levels, default=1) - 1)
    for node in nodes:
        _write(node["content"], draft)
    return [draft.page(1)] if draft.size else []


def _slides(nodes: list[dict[str, Any]], allowance: TextAllowance) -> list[Page]:
    """A page for each slide; its title is the heading."""
    drafts: list[PageBuilder] = []
    for node in nodes:
        if node["content"]["node_type"] == "slide" or not drafts:
            drafts.append(PageBuilder(allowance))
        _write(node["content"], drafts[-1])
    return [draft.page(number) for number, draft in enumerate(drafts, 1) if draft.size]


def _sheets(result: "ExtractionResult", allowance: TextAllowance) -> list[Page]:
    """A page for each sheet that has cells; its name is the heading."""
    names: Any = result.metadata.get("sheet_names") or []
    pages = []
    for table in result.tables:
        draft = PageBuilder(allowance)
        draft.heading(names[table.page_number - 1] if 0 < table.page_number <= len(names) else "", 1)
        before = draft.size
        draft.table(table.cells)
        if draft.size > before:
            pages.append(draft.page(table.page_number))
    return pages


def _write(content: dict[str, Any], draft: PageBuilder) -> None:
    match content["node_type"]:
        case "heading" | "title":
            draft.heading(content.get("text", ""), content.get("level", 1))
        case "table":
            draft.table(_rows(content.get("grid") or {}))
        case "list_item":
            draft.line(f"- {content.get('text', '').strip()}" if content.get("text", "").strip() else "")
        case "image":
            draft.paragraph(content.get("description") or "")
        case "slide":
            draft.heading(content.get("title") or "", 1)
        case "group" | "list" | "quote" | "page_break":
            pass  # their text is in the nodes below
        case _:
            draft.paragraph(without_fields(content.get("text") or ""))


def _rows(grid: dict[str, Any]) -> list[list[str]]:
    rows: list[list[str]] = [[] for _ in range(int(grid.get("rows", 0)))]
    for cell in grid.get("cells", ()):
        if cell["row"] < len(rows):
            row = rows[cell["row"]]
            row += [""] * (cell["col"] - len(row))
            row.append(cell["content"])
    return rows


def _with_missing(pages: list[Page], missing: Iterable[str], allowance: TextAllowance, *, flowing: bool) -> list[Page]:
    """Add the omitted text, as a page or at the end of a flowing text."""
    draft = PageBuilder(allowance)
    for paragraph in missing:
        draft.paragraph(paragraph)
    if not draft.size:
        return pages
    if not (flowing and pages):
        return [*pages, draft.page(max((page.number for page in pages), default=0) + 1)]
    [last] = pages
    return [Page(last.number, f"{last.text}\n\n{draft.page(1).text}", last.headings, last.tables)]


def _refuse_deep_pages(package: Package) -> None:
    """Refuse a book whose pages are nested so deep that they overrun kreuzberg's stack."""
    for name in package.names:
        if (
            name.lower().endswith((".xhtml", ".html", ".htm"))
            and nesting(package.read(name).decode("latin-1")) > DEEPEST
        ):
            raise Suspicious(f"The part {name[:100]!r} nests more than {DEEPEST:,} elements into each other.")


def _title(metadata: dict[str, Any]) -> str:
    title = metadata.get("title") or metadata.get("subject")
    return one_line(title)[:1000] if isinstance(title, str) and "\\'" not in title else ""


def _facts(metadata: dict[str, Any]) -> dict[str, str]:
    facts = {ours: one_line(str(metadata[theirs]))[:1000] for theirs, ours in _FACTS.items() if metadata.get(theirs)}
    authors = metadata.get("authors")
    if isinstance(authors, list) and authors:
        facts["author"] = one_line(", ".join(map(str, authors)))[:1000]
    return facts


def _reason(file: BinaryIO, media_type: str, arguments: Mapping[str, Any]) -> str:
    if media_type in _ZIPPED:
        names = [name.lower() for name in Package(file, arguments).names if "thumbnail" not in name.lower()]
        if any(name.endswith(_PICTURES) for name in names):
            return "no text in it: it holds only images"
    return "no text in it: all of its sheets are empty" if media_type in _SHEETS else "no text in it: it is blank"
