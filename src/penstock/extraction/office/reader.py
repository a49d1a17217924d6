"""Word, Excel, OpenDocument text and tables, RTF, EPUB, and the binary formats before 2007, by kreuzberg.

Kreuzberg gives a tree of headings, paragraphs, lists and tables, and leaves some text out without a word: footnotes, text
boxes, comments. For the formats that are XML inside, `sweep` finds what is missing. A spreadsheet's sheets are pages.
"""

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO

from penstock.errors import Corrupt, Encrypted, Suspicious
from penstock.extraction.draft import Allowance, Draft, one_line, refuse_pages
from penstock.extraction.office import legacy, sheet, sweep
from penstock.extraction.office.oldoffice import DOC, PPT, XLS
from penstock.extraction.office.package import LOCKED, Package
from penstock.extraction.office.parts import DOCX, EPUB, ODS, ODT, XLSB, XLSX
from penstock.extraction.plain.web import DEEPEST, nesting
from penstock.extraction.reading import Gap, Page, Reading

if TYPE_CHECKING:
    from kreuzberg import ExtractionResult

_SHEETS = frozenset([XLSX, XLSB, XLS, ODS])
_PAGED = _SHEETS | {PPT}
_ZIPPED = frozenset([DOCX, XLSX, XLSB, ODT, ODS, EPUB])
_SWEPT = frozenset([DOCX, XLSX, ODT, ODS])
_EXCEL_BY_KREUZBERG = {XLSB: "application/vnd.ms-excel.sheet.binary.macroEnabled.12"}
_SPREAD = "the cells of this sheet are far apart; its dates may be shown as numbers"
_SHEET = re.compile(rb"<(?:\w+:)?sheet\s")
_PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".emf", ".wmf", ".bmp", ".tiff", ".svg")
_FACTS = {
    "created_at": "created",
    "modified_at": "changed",
    "subject": "subject",
    "publisher": "publisher",
    "description": "description",
}


def read_office(file: BinaryIO, media_type: str, arguments: Mapping[str, Any]) -> Reading:
    if media_type in _ZIPPED:
        package = Package(file, arguments)
        package.weigh()
        _refuse_deep_pages(package)
        refuse_pages(len(_SHEET.findall(package.read("xl/workbook.xml"))), arguments)
    swept = sweep.collect(Package(file, arguments), cells=False) if media_type in _SWEPT else []
    allowance, gaps = Allowance(arguments), []
    damage: Corrupt | None = None
    try:
        pages, said = _read(file, media_type, allowance)
    except Corrupt as error:
        pages, said, damage = [], {}, error  # its XML may still be read
        swept = sweep.collect(Package(file, arguments), cells=True) if media_type in _SWEPT else []
        gaps.append(Gap(None, "it is damaged: its text was read without its structure"))
    if media_type == XLSX and damage is None:
        found = {page.number for page in pages}
        skipped = list(sheet.skipped_sheets(Package(file, arguments), found, allowance))
        gaps += [Gap(page.number, _SPREAD) for page in skipped]
        pages = sorted([*pages, *skipped], key=lambda page: page.number)
    missing = sweep.missing(swept, pages) if media_type in _SWEPT else legacy.missing(file, media_type, pages)
    pages = _with_missing(pages, missing, allowance, flowing=media_type not in _PAGED)
    if not pages:
        if damage is not None:
            raise damage
        gaps.append(Gap(None, _reason(file, media_type, arguments)))
    return Reading(media_type, pages, title=_title(said), facts=_facts(said), gaps=gaps)


def _read(file: BinaryIO, media_type: str, allowance: Allowance) -> tuple[list[Page], dict[str, Any]]:
    """Pages, and what the file says of itself."""
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
    """By kreuzberg; the tree of nodes takes a kilobyte for each cell of a table, which sheets have too many of."""
    import kreuzberg

    options: dict[str, Any] = {"disable_ocr": True, "include_document_structure": nodes, "output_format": "plain"}
    config = kreuzberg.ExtractionConfig(use_cache=False, enable_quality_processing=False, **options)
    file.seek(0)
    raw = legacy.padded(file.read()) if media_type in (DOC, XLS) else file.read()
    try:
        return kreuzberg.extract_bytes_sync(raw, _EXCEL_BY_KREUZBERG.get(media_type, media_type), config)
    except BaseException as error:  # a panic of Rust is no Exception
        if isinstance(error, KeyboardInterrupt | SystemExit | MemoryError):
            raise
        words = one_line(str(error)).lower()
        if "password" in words or "encrypted" in words:
            raise Encrypted(LOCKED) from error
        raise Corrupt("damaged: it cannot be read as what it claims to be") from error


def _nodes(result: "ExtractionResult") -> list[dict[str, Any]]:
    structure: Any = result.document
    return list(structure["nodes"]) if structure else []


def _flow(nodes: list[dict[str, Any]], allowance: Allowance) -> list[Page]:
    """One page. Kreuzberg leaves level 1 to a title that many documents do not have."""
    levels = [node["content"].get("level", 1) for node in nodes if node["content"]["node_type"] in ("heading", "title")]
    draft = Draft(allowance, above=min(levels, default=1) - 1)
    for node in nodes:
        _write(node["content"], draft)
    return [draft.page(1)] if draft.size else []


def _slides(nodes: list[dict[str, Any]], allowance: Allowance) -> list[Page]:
    """A page for each slide; its title is the heading."""
    drafts: list[Draft] = []
    for node in nodes:
        if node["content"]["node_type"] == "slide" or not drafts:
            drafts.append(Draft(allowance))
        _write(node["content"], drafts[-1])
    return [draft.page(number) for number, draft in enumerate(drafts, 1) if draft.size]


def _sheets(result: "ExtractionResult", allowance: Allowance) -> list[Page]:
    """A page for each sheet that has cells; its name is the heading."""
    names: Any = result.metadata.get("sheet_names") or []
    pages = []
    for table in result.tables:
        draft = Draft(allowance)
        draft.heading(names[table.page_number - 1] if 0 < table.page_number <= len(names) else "", 1)
        before = draft.size
        draft.table(table.cells)
        if draft.size > before:
            pages.append(draft.page(table.page_number))
    return pages


def _write(content: dict[str, Any], draft: Draft) -> None:
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
            draft.paragraph(legacy.without_fields(content.get("text") or ""))


def _rows(grid: dict[str, Any]) -> list[list[str]]:
    rows: list[list[str]] = [[] for _ in range(int(grid.get("rows", 0)))]
    for cell in grid.get("cells", ()):
        if cell["row"] < len(rows):
            row = rows[cell["row"]]
            row += [""] * (cell["col"] - len(row))
            row.append(cell["content"])
    return rows


def _with_missing(pages: list[Page], missing: Iterable[str], allowance: Allowance, *, flowing: bool) -> list[Page]:
    """A page more for what the reader has left out; in a flowing text, its end."""
    draft = Draft(allowance)
    for paragraph in missing:
        draft.paragraph(paragraph)
    if not draft.size:
        return pages
    if not (flowing and pages):
        return [*pages, draft.page(max((page.number for page in pages), default=0) + 1)]
    [last] = pages
    return [Page(last.number, f"{last.text}\n\n{draft.page(1).text}", last.headings, last.tables)]


def _refuse_deep_pages(package: Package) -> None:
    """Of a book: the nesting of a page that overruns kreuzberg's stack."""
    for name in package.names:
        if (
            name.lower().endswith((".xhtml", ".html", ".htm"))
            and nesting(package.read(name).decode("latin-1")) > DEEPEST
        ):
            raise Suspicious(f"Its part {name[:100]!r} nests more than {DEEPEST:,} elements into each other.")


def _title(said: dict[str, Any]) -> str:
    title = said.get("title") or said.get("subject")
    return one_line(title)[:1000] if isinstance(title, str) and "\\'" not in title else ""


def _facts(said: dict[str, Any]) -> dict[str, str]:
    facts = {ours: one_line(str(said[theirs]))[:1000] for theirs, ours in _FACTS.items() if said.get(theirs)}
    authors = said.get("authors")
    if isinstance(authors, list) and authors:
        facts["author"] = one_line(", ".join(map(str, authors)))[:1000]
    return facts


def _reason(file: BinaryIO, media_type: str, arguments: Mapping[str, Any]) -> str:
    if media_type in _ZIPPED:
        names = [name.lower() for name in Package(file, arguments).names if "thumbnail" not in name.lower()]
        if any(name.endswith(_PICTURES) for name in names):
            return "no text in it: it holds only images"
    return "no text in it: all of its sheets are empty" if media_type in _SHEETS else "no text in it: it is blank"
