"""Plain formats: encodings, Markdown, tables, JSON, notebooks."""

import io
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import Suspicious, TooMuch
from penstock.extraction.result import MARKS
from penstock.extraction.text_formats.encoding import decode
from penstock.extraction.text_formats.text import read_text
from tests.extraction import sample_files

_GERMAN = "Die Pumpe läuft weiter, auch über Nacht; größere Störungen meldet sie früh."
_RUSSIAN = "Насос работает всю ночь, и никто не знает почему. Утром приходит инженер и читает журнал."
_JAPANESE = "ポンプは夜通し動き続け、朝に技術者が記録を読みます。漏れは見つかりませんでした。" * 3
_POLISH = "Zażółć gęślą jaźń. Pompa działa całą noc, a rano inżynier czyta dziennik zdarzeń."


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        (_GERMAN, "utf-8"),
        (_GERMAN, "utf-8-sig"),
        (_GERMAN, "utf-16"),
        (_GERMAN, "utf-16-le"),
        (_GERMAN, "utf-16-be"),
        (_GERMAN, "utf-32"),
        (_GERMAN, "cp1252"),
        (_GERMAN, "latin-1"),
        ("“Smart quotes” – and a dash…", "cp1252"),
        (_RUSSIAN, "utf-8"),
        (_RUSSIAN, "cp1251"),
        (_RUSSIAN * 3, "koi8-r"),
        (_POLISH, "cp1250"),
        (_JAPANESE, "shift_jis"),
        (_JAPANESE, "euc_jp"),
    ],
)
def test_encodings_are_found(text: str, encoding: str) -> None:
    assert decode(text.encode(encoding)) == text


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("café", "latin-1"),
        ("é", "latin-1"),
        ("Öl", "latin-1"),
        ("GRÖSSE", "latin-1"),
        ("naïve crème brûlée", "latin-1"),
        ("¿Qué tal, Señor Núñez?", "latin-1"),
        ("smørrebrød", "latin-1"),
        ("“quoted”", "cp1252"),
        ("10 €", "cp1252"),
        ("© 2024 Müller", "cp1252"),
        ("5 µm ± 2", "cp1252"),
        ("Žluťoučký kůň", "cp1250"),
        ("zażółć", "cp1250"),
        ("Łódź", "iso8859-2"),
        ("Привет, мир", "cp1251"),
        ("ПРИВЕТ", "cp1251"),
        ("насос", "koi8-r"),
        ("Η αντλία", "cp1253"),
        ("日本語テキスト", "shift_jis"),
    ],
)
def test_the_encoding_of_a_short_text_is_found(text: str, encoding: str) -> None:
    assert decode(text.encode(encoding)) == text


def test_bytes_that_cannot_be_decoded_are_a_gap() -> None:
    document = read_text(io.BytesIO("Насос ".encode() * 20 + b"\xff"), "text/plain", {})
    assert document.pages[0].text.count("\ufffd") == 1
    [gap] = document.gaps
    assert gap.reason == "1 character could not be decoded: save the file as UTF-8 and add it again"


@given(st.binary(max_size=60))
def test_no_byte_is_lost_in_silence(raw: bytes) -> None:
    document = read_text(io.BytesIO(raw), "text/plain", {})
    lost = sum(page.text.count("\ufffd") for page in document.pages) > raw.count("\ufffd".encode())
    assert not lost or document.gaps


def test_a_replacement_character_of_the_file_is_no_gap() -> None:
    assert read_text(io.BytesIO("what? \ufffd".encode()), "text/plain", {}).gaps == []


@pytest.mark.parametrize("encoding", ["cp1253", "iso8859-9", "gb18030"])
def test_what_a_document_says_of_itself_is_believed(encoding: str) -> None:
    text = {"cp1253": "Η αντλία", "iso8859-9": "Pompa çalışıyor ğ", "gb18030": "泵在夜间运行"}[encoding]
    assert decode(text.encode(encoding), encoding) == text


@pytest.mark.parametrize("said", ["zlib", "base64", "no-such", "\0", "utf-8", "hex"])
def test_a_wrong_word_about_the_encoding_is_ignored(said: str) -> None:
    assert decode(_GERMAN.encode("cp1252"), said) == _GERMAN


def test_a_few_broken_bytes_do_not_spoil_a_text() -> None:
    raw = (_RUSSIAN * 3).encode() + b"\xff and " + _RUSSIAN.encode()
    assert decode(raw) == _RUSSIAN * 3 + "\ufffd and " + _RUSSIAN


@given(st.binary(max_size=3_000))
def test_any_bytes_become_text(raw: bytes) -> None:
    assert isinstance(decode(raw), str)


def test_text_stays_as_it_is_with_one_kind_of_line_end() -> None:
    reading = sample_files.read(b"one\r\n\r\n  two\rthree\x0bfour\x07", "a.txt")
    assert sample_files.text_of(reading) == "one\n\n  two\nthree\nfour"


def test_white_space_alone_has_a_reason() -> None:
    reading = sample_files.read(b" \n\t \r\n", "a.txt")
    assert not reading.pages
    assert reading.gaps[0].reason == "no text in it: it holds only white space"


def test_too_much_text_is_refused_before_it_is_read() -> None:
    with pytest.raises(TooMuch, match=r"limits\.characters"):
        sample_files.read(b"x" * 5_000, "a.txt", characters=1_000)
    with pytest.raises(TooMuch, match=r"limits\.characters"):
        sample_files.read(b"x" * 1_001, "a.txt", characters=1_000)


def test_markdown_has_headings_and_tables() -> None:
    text = """Pumps
=====

About *them*.

## The [parts](http://x) `list` ##

| part | pieces |
|------|-------:|
| valve | 3 |
| ring | 5 |

```
# not a heading
| not | a table |
|-----|---------|
```

### Last_one
"""
    [page] = sample_files.read(text.encode(), "a.md").pages
    assert page.text == text
    assert [(heading.level, heading.title) for heading in page.headings] == [
        (1, "Pumps"),
        (2, "The parts list"),
        (3, "Last_one"),
    ]
    assert all(text[heading.start :].startswith(("Pumps", "##")) for heading in page.headings)
    [table] = page.tables
    assert text[table.start : table.stop].splitlines()[0] == table.header == "| part | pieces |"
    assert text[table.start : table.stop].endswith("| ring | 5 |")


@pytest.mark.parametrize(
    "raw",
    [
        b'part,place\nvalve,"shelf 3, left"\nring,\n',
        b'part;place\nvalve;"shelf 3, left"\nring;\n',
        b"part\tplace\nvalve\tshelf 3, left\nring\t\n",
        'part,place\nvalve,"shelf 3, left"\nring,\n'.encode("utf-16"),
    ],
)
def test_a_table_becomes_lines_with_a_header(raw: bytes) -> None:
    [page] = sample_files.read(raw, "stock.csv").pages
    assert page.text == "part | place\nvalve | shelf 3, left\nring"
    assert page.tables[0].header == "part | place"
    assert (page.tables[0].start, page.tables[0].stop) == (0, len(page.text))


def test_a_title_row_is_no_header() -> None:
    [page] = sample_files.read(b"Stock of June,,\n,,\npart,place,pieces\nvalve,shelf,3\n", "stock.csv").pages
    assert page.tables[0].header == "part | place | pieces"
    assert page.text[page.tables[0].start :].startswith("part | place")


def test_a_cell_of_a_megabyte_and_an_open_quote_are_read() -> None:
    [page] = sample_files.read(b'a,b\n"' + b"x" * 1_000_000 + b'",1\n"open,2\n', "a.csv").pages
    assert len(page.text) > 1_000_000


def test_a_value_far_to_the_right_is_no_line_of_bars() -> None:
    [page] = sample_files.read(b"a,b\n1" + b"," * 16_000 + b"far\n", "a.csv").pages
    assert page.text == "a | b\n1 | far"


def test_empty_cells_have_a_reason() -> None:
    assert "empty" in sample_files.read(b",,,\n,,,\n", "a.csv").gaps[0].reason


def test_json_becomes_readable_lines() -> None:
    value = {"name": "pump", "sizes": [1, 2.50, None], "parts": [{"id": 7, "spare": True}, {"id": 8}], "none": {}}
    [page] = sample_files.read(json.dumps(value).encode()).pages
    assert page.text == "name: pump\nsizes: 1, 2.5\nparts:\n\nid: 7\nspare: true\n\nid: 8\nnone:"


def test_json_lines_are_read_line_by_line() -> None:
    [page] = sample_files.read(b'{"a": "x"}\n{"a": "y"}\n').pages
    assert page.text == "a: x\n\na: y"


def test_numbers_of_a_million_digits_are_text() -> None:
    [page] = sample_files.read(b'{"n": 1' + b"0" * 1_000_000 + b"}").pages
    assert page.text == "n: 1" + "0" * 1_000_000


def test_json_that_is_none_is_read_as_text() -> None:
    reading = sample_files.read(b'{"name": "pump", broken}', "a.json")
    assert "pump" in sample_files.text_of(reading)
    assert "not valid JSON" in reading.gaps[0].reason


def test_endless_nesting_is_suspicious() -> None:
    with pytest.raises(Suspicious, match="nests"):
        sample_files.read(b"[" * 200_000 + b"]" * 200_000, "a.json")


def test_a_notebook_is_read_cell_by_cell() -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Leaks\n", "How we *found* them."]},
        {
            "cell_type": "code",
            "source": "print(leaks)",
            "outputs": [
                {"output_type": "stream", "text": ["three\n"]},
                {"output_type": "execute_result", "data": {"text/plain": "42", "image/png": "iVBOR"}},
            ],
        },
        {"cell_type": "raw", "source": None},
        "nonsense",
    ]
    reading = sample_files.read(json.dumps({"cells": cells, "nbformat": 4}).encode(), "a.ipynb")
    [page] = reading.pages
    assert page.text == "Leaks\n\nHow we *found* them.\n\nprint(leaks)\n\nthree\n\n42"
    assert [heading.title for heading in page.headings] == ["Leaks"] and reading.title == "Leaks"


@pytest.mark.parametrize(
    "text",
    ["# " + "[" * 100_000, "|-" * 1_000_000, "a|b\n-|-\n" * 50_000, "# " + " " * 200_000 + "x", "```\n" * 50_000],
)
def test_no_markdown_is_slow(text: str) -> None:
    began = time.process_time()
    [page] = sample_files.read(text.encode(), "a.md").pages
    assert time.process_time() - began < 3
    assert len(page.text) == len(text)


def test_headings_without_number_are_capped() -> None:
    """Each of them takes memory of the worker."""
    [page] = sample_files.read(b"# a\n" * (MARKS + 5), "a.md").pages
    assert len(page.headings) == MARKS
    [page] = sample_files.read(b"<html><body>" + b"<h1>a</h1>" * (MARKS + 5), "a.html").pages
    assert len(page.headings) == MARKS
