"""Reads slides (PPTX, ODP, and ODG drawings): each slide is a page, in the order of the show.

Kreuzberg does not read ODP, and in PPTX it splits words where their formatting changes and loses their slide. So these are
read here: titles as headings, paragraphs, tables, charts, diagrams, and the notes of the speaker.
"""

from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from penstock.errors import Corrupt
from penstock.extraction.office.package import PPTX, Package, relations
from penstock.extraction.office.xmltree import XmlNode, parse_xml
from penstock.extraction.result import ExtractedDocument, Gap, Page, PageBuilder, TextAllowance, one_line, refuse_pages

_LARGEST = 64 * 2**20
_TITLES = frozenset(["title", "ctrTitle"])
_COUNTERS = frozenset(["sldNum", "dt"])  # filled in by the program
_PICTURED = ("/chart", "/diagramData", "/comments")
_NOTHING = "no text in it: it holds only images"


def read_slides(file: BinaryIO, media_type: str, arguments: Mapping[str, Any]) -> ExtractedDocument:
    package, allowance = Package(file, arguments), TextAllowance(arguments)
    package.weigh()
    slides = _pptx(package, allowance) if media_type == PPTX else _opendocument(package, allowance)
    pages, gaps = [], []
    for number, slide in enumerate(slides, 1):
        refuse_pages(number, arguments)
        if isinstance(slide, str):
            gaps.append(Gap(number, slide))
        elif slide.size:
            pages.append(slide.page(number))
    if not pages:
        gaps.append(Gap(None, _NOTHING))
    return ExtractedDocument(media_type, pages, title=_title(package, pages), facts=_facts(package), gaps=gaps)


def _pptx(package: Package, allowance: TextAllowance) -> Iterator[PageBuilder | str]:
    """Each slide, or the reason why it cannot be read."""
    for name in _order(package):
        try:
            root = parse_xml(package.read(name, _LARGEST), name)
            draft = PageBuilder(allowance)
            _write_shapes(root, draft)
            _write_related(package, name, draft)
        except Corrupt as error:
            yield f"the slide cannot be read: {error}"
        else:
            yield draft


def _order(package: Package) -> list[str]:
    """The slides' parts as the presentation lists them; by their numbers when that list is broken."""
    main = next((name for name in package.names if name.lower() == "ppt/presentation.xml"), "")
    try:
        targets = {relation.id: relation.target for relation in relations(package, main)}
        listed = parse_xml(package.read(main, _LARGEST), main).find("sldIdLst")
        slides = [targets.get(node.attributes.get("r:id", ""), "") for node in listed.elements()] if listed else []
    except Corrupt:
        slides = []
    present = [name for name in slides if name in package]
    return present or sorted(
        (name for name in package.names if name.startswith("ppt/slides/slide") and name.endswith(".xml")),
        key=lambda name: (len(name), name),
    )


def _write_shapes(root: XmlNode, draft: PageBuilder, *, notes: bool = False) -> None:
    """Shapes in their order, the title before all others."""
    shapes = [node for node in _shapes(root) if _role(node) not in _COUNTERS]
    for shape in sorted(shapes, key=lambda node: _role(node) not in _TITLES):
        title = _role(shape) in _TITLES and not notes
        if shape.tag == "tbl":
            draft.table(
                [
                    [" ".join(_paragraphs(cell)) for cell in row.elements() if cell.tag == "tc"]
                    for row in shape.elements()
                    if row.tag == "tr"
                ]
            )
        elif title:
            draft.heading(" ".join(_paragraphs(shape)), 1)
        else:
            draft.paragraph("\n".join(_paragraphs(shape)))


def _shapes(root: XmlNode) -> Iterator[XmlNode]:
    """Shapes and tables; of two forms of the same thing only the newer one."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.tag in ("sp", "tbl", "cxnSp"):
            yield node
        elif node.tag == "AlternateContent":
            waiting += [child for child in node.elements() if child.tag == "Choice"][:1]
        else:
            waiting += reversed(list(node.elements()))


def _role(shape: XmlNode) -> str:
    placeholder = shape.find("ph") if shape.tag == "sp" else None
    return placeholder.attributes.get("type", "body") if placeholder is not None else ""


def _paragraphs(node: XmlNode) -> Iterator[str]:
    for paragraph in node.walk():
        if paragraph.tag == "p":
            text = "".join(_runs(paragraph)).strip()
            if text:
                yield text


def _runs(paragraph: XmlNode) -> Iterator[str]:
    waiting = list(reversed(list(paragraph.elements())))
    while waiting:
        node = waiting.pop()
        if node.tag == "t":
            yield node.text()
        elif node.tag in ("br", "tab"):
            yield "\n" if node.tag == "br" else "\t"
        elif node.tag == "AlternateContent":
            waiting += [child for child in node.elements() if child.tag == "Choice"][:1]
        else:
            waiting += reversed(list(node.elements()))


def _write_related(package: Package, slide: str, draft: PageBuilder) -> None:
    """Charts, diagrams and comments, then the notes of the speaker."""
    related = list(relations(package, slide))
    for _, kind, target in related:
        if kind.endswith(_PICTURED) and target in package:
            root = parse_xml(package.read(target, _LARGEST), target)
            values = [node.text().strip() for node in root.walk() if node.tag in ("t", "v", "text")]
            draft.paragraph("\n".join(dict.fromkeys(filter(None, values))))
    for _, kind, target in related:
        if kind.endswith("/notesSlide") and target in package:
            _write_shapes(parse_xml(package.read(target, _LARGEST), target), draft, notes=True)


def _opendocument(package: Package, allowance: TextAllowance) -> Iterator[PageBuilder]:
    root = parse_xml(package.read("content.xml", _LARGEST), "content.xml")
    for slide in root.walk():
        if slide.tag == "page":
            draft = PageBuilder(allowance)
            _write_frames(slide, draft)
            yield draft


def _write_frames(slide: XmlNode, draft: PageBuilder) -> None:
    waiting = list(reversed(list(slide.elements())))
    while waiting:
        node = waiting.pop()
        if node.tag == "frame" and node.attributes.get("class") == "title":
            draft.heading(" ".join(_lines(node)), 1)
        elif node.tag == "table":
            draft.table(
                [[" ".join(_lines(cell)) for cell in row.elements()] for row in node.walk() if row.tag == "table-row"]
            )
        elif node.tag in ("p", "h"):
            draft.line(_line(node))
        elif node.tag == "text-box":
            draft.paragraph("\n".join(_lines(node)))
        elif node.tag not in ("page-thumbnail", "header", "footer", "date-time", "page-number"):
            waiting += reversed(list(node.elements()))


def _lines(node: XmlNode) -> Iterator[str]:
    for paragraph in node.walk():
        if paragraph.tag in ("p", "h") and (text := _line(paragraph)):
            yield text


def _line(paragraph: XmlNode) -> str:
    pieces: list[str] = []
    waiting = list(reversed(paragraph.children))
    while waiting:
        child = waiting.pop()
        if isinstance(child, str):
            pieces.append(child)
        elif child.tag in ("line-break", "tab", "s"):
            pieces.append("\n" if child.tag == "line-break" else " ")
        else:
            waiting += reversed(child.children)
    return "".join(pieces).strip()


def _properties(package: Package) -> dict[str, str]:
    for part in ("docProps/core.xml", "meta.xml"):
        if part in package:
            try:
                nodes = parse_xml(package.read(part, 2**20), part).walk()
                return {node.tag: one_line(node.text())[:1000] for node in nodes if node.text().strip()}
            except Corrupt:
                return {}
    return {}


def _title(package: Package, pages: list[Page]) -> str:
    first = next((heading.title for page in pages for heading in page.headings), "")
    title = _properties(package).get("title", "")
    return title if title and title.lower() != "powerpoint presentation" else first


def _facts(package: Package) -> dict[str, str]:
    properties = _properties(package)
    names = {
        "creator": "author",
        "created": "created",
        "creation-date": "created",
        "modified": "changed",
        "date": "changed",
        "subject": "subject",
    }
    return {ours: properties[theirs] for theirs, ours in names.items() if theirs in properties}
