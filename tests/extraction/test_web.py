"""Web pages and XML: what a reader sees, and nothing that an attacker wants."""

import time

import pytest

from penstock.extraction.text_formats.web import DEEPEST, nesting
from tests.extraction import sample_files


def html(body: str, head: str = "") -> bytes:
    return f"<!DOCTYPE html><html><head>{head}</head><body>{body}</body></html>".encode()


def test_a_page_is_read_in_blocks() -> None:
    body = """
      <nav><a href="/">Home</a></nav><script>var x = "no";</script><style>p {}</style>
      <h1>All <b>pumps</b></h1><p>First
      paragraph with a <a href="x">link</a>.<br>Next line.</p>
      <ul><li>one</li><li>two <i>more</i></li></ul>
      <pre>kept
        as it is</pre><img src="x" alt="a drawing"><noscript>Enable it</noscript>
      <h2>Parts</h2><div>loose text</div>"""
    reading = sample_files.read(html(body, "<title>The  Pumps</title>"))
    [page] = reading.pages
    assert reading.title == "The Pumps"
    assert page.text == (
        "All pumps\n\nFirst paragraph with a link.\nNext line.\n- one\n- two more\n\nkept\n        as it is\n\n"
        "a drawing\n\nParts\n\nloose text"
    )
    assert [(heading.level, page.text[heading.start :][:5]) for heading in page.headings] == [
        (1, "All p"),
        (2, "Parts"),
    ]


def test_a_table_of_values_has_rows() -> None:
    body = """<table><caption>Stock</caption><thead><tr><th>part</th><th>pieces</th></tr></thead>
      <tr><td>valve<br>large</td><td>3</td></tr><tr><td></td><td>5</td></tr></table><p>after</p>"""
    [page] = sample_files.read(html(body)).pages
    assert page.text == "Stock\n\npart | pieces\nvalve large | 3\n | 5\n\nafter"
    assert page.tables[0].header == "part | pieces"


def test_a_table_that_arranges_a_page_is_no_table() -> None:
    body = """<table><tr><td><h1>Title</h1></td><td><ul><li>menu</li></ul></td></tr>
      <tr><td><table><tr><td>a</td><td>b</td></tr><tr><td>1</td><td>2</td></tr></table></td><td>text</td></tr></table>"""
    [page] = sample_files.read(html(body)).pages
    assert page.text == "Title\n- menu\n\na | b\n1 | 2\n\ntext"


@pytest.mark.parametrize(
    "raw",
    [
        '<meta charset="windows-1251"><p>Насос'.encode("cp1251"),
        '<meta http-equiv="Content-Type" content="text/html; charset=windows-1251"><p>Насос'.encode("cp1251"),
        "<p>Насос".encode("utf-16"),
        '<meta charset="windows-1251"><p>Насос'.encode(),  # a lie: it is UTF-8
    ],
)
def test_a_page_may_say_its_encoding(raw: bytes) -> None:
    assert sample_files.text_of(sample_files.read(raw, "a.html")) == "Насос"


def test_a_page_without_text_has_a_reason() -> None:
    reading = sample_files.read(html("<script>draw()</script><img src=x>", "<title>App</title>"))
    assert not reading.pages and reading.title == "App"
    assert "scripts" in reading.gaps[0].reason


@pytest.mark.parametrize("tag", ["div", "x-y"])
def test_endless_nesting_is_read_without_the_parser(tag: str) -> None:
    raw = html(f"<p>before</p>{f'<{tag} class=a>' * 300_000}deep &amp; low{f'</{tag}>' * 300_000}<script>no</script>")
    began = time.process_time()
    text = sample_files.text_of(sample_files.read(raw))
    assert time.process_time() - began < 5
    assert "before" in text and "deep & low" in text and "no" not in text.split()


def test_a_tag_of_thousands_of_attributes_is_read_without_the_parser() -> None:
    crowd = " ".join(f"a{number}=b" for number in range(100_000))
    began = time.process_time()
    reading = sample_files.read(f"<html><body><p {crowd}>turbine</p></body></html>".encode())
    assert sample_files.text_of(reading) == "turbine"
    assert time.process_time() - began < 2, "the parser takes a minute"


def test_nesting_counts_what_really_nests() -> None:
    assert nesting("<ul>" + "<li>x" * 5_000 + "</ul>" + "<p>y" * 5_000 + "<br>" * 5_000) == 1
    assert nesting("<div>" * 3_000) > DEEPEST


@pytest.mark.parametrize(
    "raw",
    [b"<", b"<html", b"<html><body><table><tr><td>", b"<html></p></b></table></html>", b"<html>\0\x01<p>" + b"a" * 50],
)
def test_broken_pages_do_not_raise(raw: bytes) -> None:
    sample_files.read(raw, "a.html")


def test_xml_is_read_element_by_element() -> None:
    raw = b"""<?xml version="1.0" encoding="iso-8859-1"?><!-- no -->
      <book id="7"><title>P\xfcmps</title><para>Some
      <emphasis>very</emphasis> good text.</para><para/><note><![CDATA[<p>HTML <b>inside</b></p>]]></note></book>"""
    reading = sample_files.read(raw)
    assert reading.title == "Pümps"
    assert sample_files.text_of(reading) == "Pümps\nSome very good text.\n\nHTML inside"


def test_xml_with_values_in_attributes_only_is_read() -> None:
    assert (
        sample_files.text_of(
            sample_files.read(b'<?xml version="1.0"?><stock><part name="valve"/><part name="ring"/></stock>')
        )
        == "valve\nring"
    )


def test_laughs_are_not_multiplied() -> None:
    entities = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    raw = f'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY l0 "ha"><!ENTITY who "Ada">{entities}]><x>&who; laughs &l9;</x>'
    reading = sample_files.read(raw.encode())
    assert sample_files.text_of(reading) == "Ada laughs"
    assert "entities" in reading.gaps[0].reason


def test_nothing_outside_is_opened() -> None:
    outside = '<!ENTITY f SYSTEM "file:///etc/hostname"><!ENTITY % p SYSTEM "http://127.0.0.1:9/x"> %p;'
    raw = f'<?xml version="1.0"?><!DOCTYPE x [{outside}]><x>a &f; b</x>'.encode()
    reading = sample_files.read(raw)
    assert sample_files.text_of(reading) == "a b"
    assert reading.gaps


def test_broken_xml_is_read_without_its_structure() -> None:
    reading = sample_files.read(b'<?xml version="1.0"?><a><b>one</b><c>two</a>')
    assert sample_files.text_of(reading).split() == ["one", "two"]
    assert "not well-formed" in reading.gaps[0].reason


def test_deep_xml_is_read() -> None:
    raw = b'<?xml version="1.0"?>' + b"<a>" * 100_000 + b"deep" + b"</a>" * 100_000
    assert sample_files.text_of(sample_files.read(raw)) == "deep"


@pytest.mark.parametrize("encoding", ["no-such", "utf-7", "cp037", "big5"])
def test_xml_in_an_encoding_that_the_parser_does_not_know_is_read(encoding: str) -> None:
    assert (
        sample_files.text_of(sample_files.read(f'<?xml version="1.0" encoding="{encoding}"?><a>words</a>'.encode()))
        == "words"
    )
