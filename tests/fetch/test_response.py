import pytest
from hypothesis import given
from hypothesis import strategies as some

from penstock.fetch.response import file_name
from penstock.fetch.target import read_target


def named(disposition: str, url: str = "http://example.org/a/report.pdf?x=y") -> str:
    return file_name(disposition, read_target(url, frozenset({80})))


@pytest.mark.parametrize(
    ("disposition", "name"),
    [
        ("", "report.pdf"),
        ("attachment", "report.pdf"),
        ('attachment; filename="x.pdf"', "x.pdf"),
        ("attachment; filename=x.pdf", "x.pdf"),
        ("attachment; filename*=UTF-8''%C3%BCber.pdf", "über.pdf"),
        ('attachment; filename="../../etc/passwd"', "passwd"),
        ('attachment; filename="/etc/passwd"', "passwd"),
        ('attachment; filename="..\\\\..\\\\boot.ini"', "boot.ini"),
        ("attachment; filename*=UTF-8''..%2F..%2Fetc%2Fshadow", "shadow"),
        ("attachment; filename*=UTF-8''a%00b%0D%0Ac.pdf", "abc.pdf"),
        ("attachment; filename*=UTF-8''fdp.%E2%80%AEexe", "fdp.exe"),
        ('attachment; filename=".."', "report.pdf"),
        ('attachment; filename="a/"', "report.pdf"),
        ('attachment; filename=""', "report.pdf"),
        ("attachment; filename*=hex''6162", "6162"),
        ("attachment; filename*=idna''abc.pdf", "report.pdf"),
        ("attachment; filename*=undefined''abc.pdf", "report.pdf"),
    ],
)
def test_file_name(disposition: str, name: str) -> None:
    assert named(disposition) == name


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("http://example.org", "example.org"),
        ("http://example.org/a/", "example.org"),
        ("http://example.org/%C3%BC.pdf", "ü.pdf"),
        ("http://example.org/x%2F..%2Fy.pdf", "y.pdf"),
        ("http://[2001:db8::1]/", "2001-db8--1"),
    ],
)
def test_the_end_of_the_path_or_the_host(url: str, name: str) -> None:
    assert named("", url) == name


def test_a_long_name_keeps_its_ending() -> None:
    name = named(f'attachment; filename="{"ü" * 500}.pdf"')
    assert name.endswith("ü.pdf")
    assert 253 <= len(name.encode()) <= 255


@given(some.text(some.characters(exclude_characters="\r\n"), max_size=80))
def test_any_header_gives_one_part_of_a_path(text: str) -> None:
    for disposition in (text, f'attachment; filename="{text}"', f"attachment; filename*={text}"):
        name = named(disposition)
        assert name.strip() == name not in {"", ".", ".."}
        assert name.isprintable()
        assert not set(name) & set("/\\")
        assert len(name.encode()) <= 255
