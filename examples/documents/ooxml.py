"""The smallest DOCX, XLSX and PPTX that office programs open: zip archives of XML, written by hand.

Stored without compression and with a fixed date, so that the same text gives the same bytes everywhere.
"""

import zipfile
from collections.abc import Mapping, Sequence
from io import BytesIO
from xml.sax.saxutils import escape

HEAD = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
WORDS = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
SHEETS = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
SLIDES = "http://schemas.openxmlformats.org/presentationml/2006/main"
DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"
TYPE = "application/vnd.openxmlformats-officedocument."
DATED = (2024, 6, 1, 12, 0, 0)


def docx(title: str, paragraphs: Sequence[tuple[str, str]]) -> bytes:
    """Paragraphs are (style, text); the styles are Heading1, Heading2 and none."""
    styles = "".join(
        f'<w:style w:type="paragraph" w:styleId="Heading{n}"><w:name w:val="heading {n}"/>'
        f'<w:pPr><w:outlineLvl w:val="{n - 1}"/></w:pPr><w:rPr><w:b/></w:rPr></w:style>'
        for n in (1, 2)
    )
    body = "".join(
        "<w:p>"
        + (f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else "")
        + f'<w:r><w:t xml:space="preserve">{escape(text)}</w:t></w:r></w:p>'
        for style, text in paragraphs
    )
    parts = {
        "word/document.xml": f'<w:document xmlns:w="{WORDS}"><w:body>{body}<w:sectPr/></w:body></w:document>',
        "word/_rels/document.xml.rels": relations([("styles", "styles.xml")]),
        "word/styles.xml": f'<w:styles xmlns:w="{WORDS}">{styles}</w:styles>',
    }
    types = {
        "word/document.xml": "wordprocessingml.document.main+xml",
        "word/styles.xml": "wordprocessingml.styles+xml",
    }
    return package(title, "word/document.xml", parts, types)


def xlsx(title: str, rows: Sequence[Sequence[str | int]]) -> bytes:
    """One sheet, named by the title."""
    cells = "".join(
        f'<row r="{n}">'
        + "".join(_cell(f"{chr(65 + column)}{n}", value) for column, value in enumerate(row))
        + "</row>"
        for n, row in enumerate(rows, 1)
    )
    sheet = f'<sheet name="{escape(title)}" sheetId="1" r:id="rId1"/>'
    parts = {
        "xl/workbook.xml": f'<workbook xmlns="{SHEETS}" xmlns:r="{OFFICE}"><sheets>{sheet}</sheets></workbook>',
        "xl/_rels/workbook.xml.rels": relations([("worksheet", "worksheets/sheet1.xml")]),
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{SHEETS}"><sheetData>{cells}</sheetData></worksheet>',
    }
    types = {
        "xl/workbook.xml": "spreadsheetml.sheet.main+xml",
        "xl/worksheets/sheet1.xml": "spreadsheetml.worksheet+xml",
    }
    return package(title, "xl/workbook.xml", parts, types)


def _cell(place: str, value: str | int) -> str:
    if isinstance(value, int):
        return f'<c r="{place}"><v>{value}</v></c>'
    return f'<c r="{place}" t="inlineStr"><is><t>{escape(value)}</t></is></c>'


def pptx(title: str, slides: Sequence[tuple[str, Sequence[str]]]) -> bytes:
    """Each slide has a title and lines; the master, the layout and the theme are as empty as programs allow."""
    numbers = range(1, len(slides) + 1)
    shown = "".join(f'<p:sldId id="{255 + n}" r:id="rId{n + 1}"/>' for n in numbers)
    presentation = (
        f'<p:presentation xmlns:p="{SLIDES}" xmlns:r="{OFFICE}" xmlns:a="{DRAWING}">'
        f'<p:sldMasterIdLst><p:sldMasterId id="2147483648" r:id="rId1"/></p:sldMasterIdLst>'
        f'<p:sldIdLst>{shown}</p:sldIdLst><p:sldSz cx="9144000" cy="6858000"/><p:notesSz cx="6858000" cy="9144000"/>'
        "</p:presentation>"
    )
    colours = " ".join(
        f'{name}="{name}"'
        for name in ("accent1", "accent2", "accent3", "accent4", "accent5", "accent6", "hlink", "folHlink")
    )
    master = (
        f"{_tree([])}"
        f'<p:clrMap bg1="lt1" tx1="dk1" bg2="lt2" tx2="dk2" {colours}/>'
        '<p:sldLayoutIdLst><p:sldLayoutId id="2147483649" r:id="rId1"/></p:sldLayoutIdLst>'
    )
    parts = {
        "ppt/presentation.xml": presentation,
        "ppt/_rels/presentation.xml.rels": relations(
            [("slideMaster", "slideMasters/slideMaster1.xml"), *(("slide", f"slides/slide{n}.xml") for n in numbers)]
        ),
        "ppt/slideMasters/slideMaster1.xml": _slide_part("sldMaster", master),
        "ppt/slideMasters/_rels/slideMaster1.xml.rels": relations(
            [("slideLayout", "../slideLayouts/slideLayout1.xml"), ("theme", "../theme/theme1.xml")]
        ),
        "ppt/slideLayouts/slideLayout1.xml": _slide_part("sldLayout", _tree([])),
        "ppt/slideLayouts/_rels/slideLayout1.xml.rels": relations(
            [("slideMaster", "../slideMasters/slideMaster1.xml")]
        ),
        "ppt/theme/theme1.xml": _theme(),
    }
    types = {
        "ppt/presentation.xml": "presentationml.presentation.main+xml",
        "ppt/slideMasters/slideMaster1.xml": "presentationml.slideMaster+xml",
        "ppt/slideLayouts/slideLayout1.xml": "presentationml.slideLayout+xml",
        "ppt/theme/theme1.xml": "theme+xml",
    }
    for n, (heading, lines) in enumerate(slides, 1):
        shapes = [_shape(2, "title", [heading], 500_000), _shape(3, "body", lines, 2_000_000)]
        parts[f"ppt/slides/slide{n}.xml"] = _slide_part("sld", _tree(shapes))
        parts[f"ppt/slides/_rels/slide{n}.xml.rels"] = relations([("slideLayout", "../slideLayouts/slideLayout1.xml")])
        types[f"ppt/slides/slide{n}.xml"] = "presentationml.slide+xml"
    return package(title, "ppt/presentation.xml", parts, types)


def _slide_part(tag: str, inside: str) -> str:
    return f'<p:{tag} xmlns:p="{SLIDES}" xmlns:r="{OFFICE}" xmlns:a="{DRAWING}">{inside}</p:{tag}>'


def _tree(shapes: Sequence[str]) -> str:
    root = '<p:nvGrpSpPr><p:cNvPr id="1" name=""/><p:cNvGrpSpPr/><p:nvPr/></p:nvGrpSpPr><p:grpSpPr/>'
    return f"<p:cSld><p:spTree>{root}{''.join(shapes)}</p:spTree></p:cSld>"


def _shape(number: int, kind: str, lines: Sequence[str], top: int) -> str:
    text = "".join(f'<a:p><a:r><a:rPr lang="en-GB"/><a:t>{escape(line)}</a:t></a:r></a:p>' for line in lines)
    return (
        f'<p:sp><p:nvSpPr><p:cNvPr id="{number}" name="{kind} {number}"/><p:cNvSpPr/>'
        f'<p:nvPr><p:ph type="{kind}"/></p:nvPr></p:nvSpPr>'
        f'<p:spPr><a:xfrm><a:off x="600000" y="{top}"/><a:ext cx="7900000" cy="1300000"/></a:xfrm></p:spPr>'
        f"<p:txBody><a:bodyPr/><a:lstStyle/>{text}</p:txBody></p:sp>"
    )


def _theme() -> str:
    names = ("dk1", "lt1", "dk2", "lt2", *(f"accent{n}" for n in range(1, 7)), "hlink", "folHlink")
    colours = "".join(
        f'<a:{name}><a:srgbClr val="{"FFFFFF" if name.startswith("lt") else "203040"}"/></a:{name}>' for name in names
    )
    font = '<a:latin typeface="Arial"/><a:ea typeface=""/><a:cs typeface=""/>'
    fill = '<a:solidFill><a:schemeClr val="phClr"/></a:solidFill>'
    return (
        f'<a:theme xmlns:a="{DRAWING}" name="plain"><a:themeElements><a:clrScheme name="plain">{colours}</a:clrScheme>'
        f'<a:fontScheme name="plain"><a:majorFont>{font}</a:majorFont><a:minorFont>{font}</a:minorFont></a:fontScheme>'
        f'<a:fmtScheme name="plain"><a:fillStyleLst>{3 * fill}</a:fillStyleLst>'
        f"<a:lnStyleLst>{3 * f'<a:ln>{fill}</a:ln>'}</a:lnStyleLst>"
        f"<a:effectStyleLst>{3 * '<a:effectStyle><a:effectLst/></a:effectStyle>'}</a:effectStyleLst>"
        f"<a:bgFillStyleLst>{3 * fill}</a:bgFillStyleLst></a:fmtScheme></a:themeElements></a:theme>"
    )


def relations(targets: Sequence[tuple[str, str]]) -> str:
    """What a part refers to, as rId1, rId2, …"""
    each = "".join(
        f'<Relationship Id="rId{n}" Type="{OFFICE}/{kind}" Target="{target}"/>'
        for n, (kind, target) in enumerate(targets, 1)
    )
    return f'<Relationships xmlns="{PACKAGE}/relationships">{each}</Relationships>'


def package(title: str, main: str, parts: Mapping[str, str], types: Mapping[str, str]) -> bytes:
    """The archive: the table of types first, then the way to the main part, the title, and the parts."""
    overrides = "".join(f'<Override PartName="/{path}" ContentType="{TYPE}{kind}"/>' for path, kind in types.items())
    core = "application/vnd.openxmlformats-package.core-properties+xml"
    table = (
        f'<Types xmlns="{PACKAGE}/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Default Extension="xml" ContentType="application/xml"/>'
        f'{overrides}<Override PartName="/docProps/core.xml" ContentType="{core}"/></Types>'
    )
    titled = f'Type="{PACKAGE}/relationships/metadata/core-properties" Target="docProps/core.xml"'
    way = relations([("officeDocument", main)]).replace("</", f'<Relationship Id="rId2" {titled}/></', 1)
    properties = (
        f'<cp:coreProperties xmlns:cp="{PACKAGE}/metadata/core-properties" xmlns:dc="http://purl.org/dc/elements/1.1/">'
        f"<dc:title>{escape(title)}</dc:title><dc:creator>Tomas Brandt</dc:creator></cp:coreProperties>"
    )
    written = BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        everything = {"[Content_Types].xml": table, "_rels/.rels": way, "docProps/core.xml": properties, **parts}
        for path, text in everything.items():
            archive.writestr(zipfile.ZipInfo(path, DATED), HEAD + text)
    return written.getvalue()
