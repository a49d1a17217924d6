"""Plain text, tables, JSON and Markdown: lines without an end, nests, and bytes that no encoding has."""

import random
from collections.abc import Iterator

from penstock.errors import NothingInside, Unreadable
from tests.hostile.file import File, either, failed, ready
from tests.hostile.good import WORDS

PLAIN = WORDS.encode()


def files() -> Iterator[File]:
    yield from nothing()
    yield from encodings()
    yield from lines()
    yield from tables()
    yield from json()
    yield from markdown()


def nothing() -> Iterator[File]:
    yield failed("empty.txt", lambda: b"", NothingInside, says="empty")
    yield failed("empty.pdf", lambda: b"", NothingInside, says="empty")
    yield failed("empty.docx", lambda: b"", NothingInside, says="empty")
    yield either("one-byte.txt", lambda: b"a")
    yield either("one-zero.bin", lambda: b"\0")
    yield either("one-byte.pdf", lambda: b"%")
    yield failed("only-zeros.txt", lambda: bytes(200_000), Unreadable)
    yield either("only-blanks.txt", lambda: b" \n\t\r" * 50_000)
    yield either("only-a-mark.txt", lambda: b"\xef\xbb\xbf")
    yield either("only-a-mark-of-utf-16.txt", lambda: b"\xff\xfe")
    yield either("only-invisible.txt", lambda: "\u200b\u200e\u2060\ufeff".encode() * 5_000)
    yield either("only-line-ends.csv", lambda: b"\r" * 200_000)


def encodings() -> Iterator[File]:
    chance = random.Random(5)
    yield either(
        "text-overlong-utf-8.txt", lambda: PLAIN + b"\xc0\xaf\xe0\x80\xaf\xf0\x80\x80\xaf\xf8\x88\x80\x80\x80" * 200
    )
    yield either("text-half-characters-utf-8.txt", lambda: PLAIN + b"\xed\xa0\x80\xed\xbf\xbf" * 200)
    yield either("text-cut-utf-8.txt", lambda: "Wörter über Wasser ".encode() * 50 + b"\xe2\x82")
    yield ready("text-odd-utf-16.txt", lambda: WORDS.encode("utf-16") + b"a")
    yield either("text-half-characters-utf-16.txt", lambda: WORDS.encode("utf-16") + b"\x00\xd8" * 500)
    yield either("text-utf-32.txt", lambda: WORDS.encode("utf-32"))
    yield either("text-utf-32-beyond.txt", lambda: b"\xff\xfe\0\0" + b"\xff\xff\xff\x7f" * 500)
    yield ready("text-utf-7.txt", lambda: WORDS.encode("utf-7") + b"+AGE-+//8-")
    yield either("text-ebcdic.txt", lambda: WORDS.encode("cp037"))
    yield either(
        "text-two-encodings.txt", lambda: "Grüße aus dem Kraftwerk. ".encode() * 20 + "Grüße ".encode("latin-1") * 20
    )
    yield either("text-all-bytes.txt", lambda: bytes(range(256)) * 50)
    yield either("text-with-zeros.txt", lambda: b"wa\0ter " * 500)
    yield ready("text-one-zero-at-the-end.txt", lambda: PLAIN * 50 + b"\0")
    yield ready("text-right-to-left.txt", lambda: WORDS + "\u202e\u2066\u202dgnp.exe\u2069" * 500)
    yield ready("text-combining.txt", lambda: WORDS + "e" + "\u0301" * 100_000)
    yield ready("text-emoji.txt", lambda: WORDS + "\U0001f469\u200d" * 20_000)
    yield either("text-escapes.txt", lambda: PLAIN + b"\x1b[2J\x1b]0;owned\x07\x9b31m\x08\x7f" * 500)
    yield either("text-noncharacters.txt", lambda: WORDS + "\ufffe\uffff\U0010ffff\ue000" * 500)
    yield either("noise.txt", lambda: chance.randbytes(100_000))
    yield either("noise-of-letters.txt", lambda: bytes(random.Random(6).choices(b"abcdefghijkl \n", k=300_000)))


def lines() -> Iterator[File]:
    yield ready("text-10-megabytes-without-a-blank.txt", lambda: b"a" * 10_000_000)
    yield ready(
        "text-without-a-blank-of-letters.txt", lambda: bytes(random.Random(7).choices(b"abcdefghijklmnop", k=300_000))
    )
    yield either("text-300000-empty-lines.txt", lambda: b"\n" * 300_000 + b"water")
    yield ready("text-200000-lines.txt", lambda: b"a\n" * 200_000)
    yield ready("text-only-carriage-returns.txt", lambda: b"water\r" * 30_000)
    yield either("text-only-dashes.txt", lambda: b"-" * 300_000)
    yield ready("text-line-separators.txt", lambda: "water\u2028\u2029\x85\x0b\x0c".encode() * 10_000)
    yield ready("text-like-a-mail.txt", lambda: b"a: b\n" * 50_000)
    yield ready("text-like-a-mailbox.txt", lambda: b"From \n" * 30_000 + PLAIN)


def tables() -> Iterator[File]:
    yield ready("csv-100000-columns.csv", lambda: (b",".join(b"c%d" % n for n in range(100_000)) + b"\n") + b"1,2,3\n")
    yield ready("csv-quote-without-an-end.csv", lambda: b'a,b\n1,"' + b"x,y\n" * 100_000)
    yield ready("csv-one-long-cell.csv", lambda: b'a,b\n1,"' + b"water " * 60_000 + b'"\n')
    yield either("csv-only-commas.csv", lambda: b"," * 300_000)
    yield ready("csv-only-quotes.csv", lambda: b"a,b\n1,2\n" + b'"' * 200_001)
    yield ready("csv-ragged.csv", lambda: b"".join(b",".join([b"a"] * (n % 500)) + b"\n" for n in range(1_000)))
    yield either("csv-with-zeros.csv", lambda: b"a,b\n" + b"1,\0\n" * 1000)
    yield ready("csv-formulas.csv", lambda: b"name,value\n" + b"=cmd|' /C calc'!A0,@SUM(1)\n" * 100)
    yield ready("tsv-100000-rows.tsv", lambda: b"a\tb\n" * 100_000)


def json() -> Iterator[File]:
    yield either("json-300000-lists-deep.json", lambda: b"[" * 300_000 + b"]" * 300_000)
    yield either("json-100000-objects-deep.json", lambda: b'{"a":' * 100_000 + b'"water"' + b"}" * 100_000)
    yield either("json-open.json", lambda: b'[{"a":' * 50_000)
    yield either("json-a-number-of-300000-digits.json", lambda: b'{"water": ' + b"9" * 300_000 + b"}")
    yield ready("json-huge-exponent.json", lambda: b'{"water": [1e999999999, -1E-999999999, NaN, Infinity, -Infinity]}')
    yield ready("json-half-characters.json", lambda: rb'{"water": "\ud800 flows \udfff down \u0000"}')
    yield ready("json-one-name-30000-times.json", lambda: b"{" + b'"water": 1, ' * 30_000 + b'"water": 2}')
    yield either("json-one-long-string.json", lambda: b'{"water": "' + b"\\u0041" * 50_000 + b'"}')
    yield either("json-two-documents.json", lambda: b'{"water": 1}{"flow": 2}')
    yield either("json-only-null.json", lambda: b"null")
    yield either("notebook-of-nonsense.ipynb", lambda: b'{"cells": 5, "nbformat": 4, "metadata": []}')
    yield either(
        "notebook-cells-of-nonsense.ipynb",
        lambda: (
            b'{"cells": [1, null, {"cell_type": 7}, {"cell_type": "code", "source": {"a": 1}, "outputs": 9}], "nbformat": 4}'
        ),
    )
    yield either(
        "notebook-old.ipynb",
        lambda: b'{"worksheets": [{"cells": [{"cell_type": "markdown", "source": "water"}]}], "nbformat": 2}',
    )


def markdown() -> Iterator[File]:
    yield ready("markdown-quotes-in-quotes.md", lambda: b"> " * 100_000 + b"water")
    yield ready("markdown-brackets.md", lambda: b"[" * 200_000 + b"water")
    yield ready("markdown-links-in-links.md", lambda: b"![" * 50_000 + b"water" + b"](x)" * 50_000)
    yield ready("markdown-stars.md", lambda: b"*a **a ***a " * 20_000)
    yield ready("markdown-backticks.md", lambda: b"".join(b"`" * (n % 300) + b"a" for n in range(1_500)))
    yield ready("markdown-lists-in-lists.md", lambda: b"".join(b" " * n + b"- water\n" for n in range(700)))
    yield ready(
        "markdown-10000-columns.md",
        lambda: b"| a " * 10_000 + b"|\n" + b"|---" * 10_000 + b"|\n" + b"| b " * 10_000 + b"|\n",
    )
    yield ready("markdown-50000-headings.md", lambda: b"# Water\n" * 50_000)
    yield ready("markdown-endless-heading.md", lambda: b"# " + b"water " * 50_000)
