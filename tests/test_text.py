"""Text that can be stored: what becomes of NUL and of lone surrogates."""

import pytest

from penstock.database import Database
from penstock.text import is_storable, storable


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("plain", "plain"),
        ("Mühle", "Mühle"),
        ("a\0b", "a\ufffdb"),
        ("a\ud800b", "a?b"),
        ("\0\udfff", "\ufffd?"),
        ("", ""),
    ],
)
async def test_text_is_stored_as_it_comes_back(database: Database, text: str, stored: str) -> None:
    assert storable(text) == stored
    assert is_storable(text) == (text == stored)
    assert await database.pool.repeat(lambda session: session.fetchval("select $1::text", storable(text))) == stored


def test_nul_becomes_what_the_caller_wants() -> None:
    assert storable("a\0b", "") == "ab"
    assert storable("a\0ü\ud800", " ") == "a ü?"
