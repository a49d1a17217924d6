"""Names: what is refused, what is made harmless, and that nothing else can come out."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.documents.names import (
    COLLECTION_MAX,
    NAME_MAX,
    check_collection_name,
    check_document_name,
    member_name,
    numbered,
)
from penstock.errors import BadValue


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("a.pdf", "a.pdf"),
        ("reports/2024/März.pdf", "reports/2024/März.pdf"),
        ("Ma\u0308rz.pdf", "März.pdf"),  # NFC
        (" a.pdf ", "a.pdf"),
        ("🦫 dam 👩‍🔧.txt", "🦫 dam 👩‍🔧.txt"),
        ("invoice\u202efdp.exe", "invoicefdp.exe"),  # looked like invoiceexe.pdf
        ("zero\u200bwidth\ufeff.txt", "zerowidth.txt"),
        ("نامه\u200cها.txt", "نامه\u200cها.txt"),
        ("...", "..."),
        ("a..b/c", "a..b/c"),
        ("x" * NAME_MAX, "x" * NAME_MAX),
    ],
)
def test_a_name_is_kept_as_people_see_it(name: str, kept: str) -> None:
    assert check_document_name(name) == kept


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "needs a name"),
        ("  ", "needs a name"),
        ("\u200b", "needs a name"),
        ("../etc/passwd", "the part .."),
        ("a/../b", "the part .."),
        (".\u200b./b", "the part .."),
        ("a/./b", r"the part \."),
        ("/etc/passwd", "absolute"),
        ("a//b", "empty part"),
        ("a/ /b", "empty part"),
        ("a/", "empty part"),
        ("a\\b", "backslash"),
        ("a\0b", r"U\+0000"),
        ("a\nb", r"U\+000A"),
        ("a\u2028b", r"U\+2028"),
        ("a\udc80b", "not valid text"),
        ("x" * 5000, "5,000 bytes, more than 1,024"),
        ("ü" * 513, "1,026 bytes"),
    ],
)
def test_a_name_that_cannot_be_is_refused_with_a_sentence(name: str, why: str) -> None:
    with pytest.raises(BadValue, match=why):
        check_document_name(name)


@given(st.text())
def test_a_name_that_is_kept_is_harmless(text: str) -> None:
    try:
        name = check_document_name(text)
    except BadValue:
        return
    assert_harmless(name)
    assert check_document_name(name) == name


@given(st.text(max_size=30), st.text(alphabet=st.characters(), max_size=2000))
def test_a_member_always_gets_a_name(parent: str, member: str) -> None:
    try:
        above = check_document_name(parent)
    except BadValue:
        above = "a.zip"
    name = member_name(above, member)
    assert_harmless(name)
    assert name.startswith(above + "!/")
    again = numbered(name, 2)
    assert_harmless(again)
    assert again != name


def assert_harmless(name: str) -> None:
    assert 0 < len(name.encode()) <= NAME_MAX
    assert not name.startswith("/")
    assert "\\" not in name
    assert not {"", ".", ".."} & set(name.split("/"))
    assert not {unicodedata.category(char) for char in name} & {"Cc", "Cs", "Zl", "Zp"}


def test_long_members_of_long_parents_stay_apart() -> None:
    parent = "x" * 1000 + ".zip"
    names = {member_name(parent, f"{'y' * 500}{number}.txt") for number in range(10)}
    assert len(names) == 10
    assert all(name.endswith(".txt") for name in names)
    assert numbered("a.zip!/b.txt", 2) == "a.zip!/b (2).txt"
    assert numbered("a.zip!/b", 3) == "a.zip!/b (3)"


@pytest.mark.parametrize("name", ["a/b", "..", "a\tb", "", "x" * (COLLECTION_MAX + 1), "a\\b"])
def test_a_collection_is_one_part_of_an_address(name: str) -> None:
    with pytest.raises(BadValue):
        check_collection_name(name)


def test_a_collection_may_have_a_friendly_name() -> None:
    assert check_collection_name(" Mühle & Söhne ") == "Mühle & Söhne"
