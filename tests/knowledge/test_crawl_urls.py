"""One spelling for one page, and one name for its document."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.documents.names import check_document_name
from penstock.knowledge.crawl.page import page_name
from penstock.knowledge.crawl.urls import NoPage, canonical, host_of, origin_of, relatives_of


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("HTTP://Example.ORG", "http://example.org/"),
        ("https://example.org:443/a#b", "https://example.org/a"),
        ("http://example.org:80/", "http://example.org/"),
        ("http://example.org:8080/", "http://example.org:8080/"),
        ("http://example.org./a", "http://example.org/a"),
        ("https://bücher.example/ü", "https://xn--bcher-kva.example/%C3%BC"),
        ("https://example.org/a/./b/../c/", "https://example.org/a/c/"),
        ("https://example.org/../../a", "https://example.org/a"),
        ("https://example.org/a/..", "https://example.org/"),
        ("https://example.org/%7euser/%e4/%2f", "https://example.org/~user/%E4/%2F"),
        ("https://example.org/%2e%2e/a", "https://example.org/a"),
        ("https://example.org/100%", "https://example.org/100%25"),
        ("https://example.org/a b", "https://example.org/a%20b"),
        ("https://example.org/?b=2&a=1&b=1", "https://example.org/?a=1&b=2&b=1"),
        ("https://example.org/?utm_source=x&id=7&fbclid=q&gclid=z", "https://example.org/?id=7"),
        ("https://example.org/?utm_source=x", "https://example.org/"),
        ("https://example.org/a;jsessionid=1F?x=1", "https://example.org/a?x=1"),
        ("  https://example.org/\ta\n ", "https://example.org/a"),
        ("http://[2001:DB8::1]/", "http://[2001:db8::1]/"),
    ],
)
def test_one_spelling(written: str, expected: str) -> None:
    assert canonical(written) == expected
    assert canonical(expected) == expected


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("b", "https://example.org/a/b"),
        ("../b", "https://example.org/b"),
        ("/b?x", "https://example.org/b?x"),
        ("?x=1", "https://example.org/a/?x=1"),
        ("//other.example/b", "https://other.example/b"),
        ("#top", "https://example.org/a/"),
    ],
)
def test_references_are_joined(reference: str, expected: str) -> None:
    assert canonical(reference, "https://example.org/a/") == expected


@pytest.mark.parametrize(
    "written",
    [
        "mailto:a@example.org",
        "javascript:alert(1)",
        "file:///etc/passwd",
        "data:text/html,x",
        "ftp://example.org/",
        "https://user:secret@example.org/",
        "https:///nothing",
        "https://exa mple.org/",
        "http://[::1",
        "http://example.org:99999/",
        "https://" + "a" * 300 + ".example/",
        "https://example.org/" + "a" * 10_000,
        "https://example.org/" + "ü" * 1_000,
        "no url",
    ],
)
def test_what_no_page_has(written: str) -> None:
    with pytest.raises(NoPage):
        canonical(written)


@given(st.text(max_size=60))
def test_it_is_settled_or_refused(text: str) -> None:
    try:
        once = canonical(f"https://example.org/{text}")
    except NoPage:
        return
    assert canonical(once) == once
    assert once.isascii()
    name = page_name(once)
    assert check_document_name(name) == name


def test_origins_and_hosts() -> None:
    url = "https://example.org:8443/a?b=https://other.example/"
    assert (origin_of(url), host_of(url)) == ("https://example.org:8443", "example.org:8443")
    assert relatives_of("example.org") == ["example.org", "www.example.org"]
    assert relatives_of("www.example.org") == ["www.example.org", "example.org"]
    assert relatives_of("127.0.0.1:80") == ["127.0.0.1:80"]
    assert relatives_of("[::1]") == ["[::1]"]


def test_names_of_documents() -> None:
    assert page_name("https://example.org/") == "example.org/index.html"
    assert page_name("http://example.org/guide/start.html") == "example.org/guide/start.html"
    assert page_name("https://example.org:8443/a/") == "example.org_8443/a/index.html"
    assert page_name("https://example.org/%C3%BCber/uns") == "example.org/über/uns"
    assert page_name("https://example.org/a?b=1&c=2") == "example.org/a?b=1&c=2"


def test_names_differ_where_addresses_do() -> None:
    paths = [
        "",
        "index.html",
        "a",
        "a/",
        "a//b",
        "a/_/b",
        "a/b",
        "a%2Fb",
        "a!/b",
        "a%21/b",
        "a%3Fb",
        "a?b",
        "a?b/c",
        "a?b%2Fc",
    ]
    paths += ["x" * 1500, "x" * 1501, "x" * 1500 + ".pdf", "a%5Cb", "a%00b", "a%20", "e%CC%81", "%C3%A9"]
    names = {path: page_name(canonical(f"https://example.org/{path}")) for path in paths}
    assert len(set(names.values())) == len(paths), names
    for name in names.values():
        assert check_document_name(name) == name
    assert names["x" * 1500 + ".pdf"].endswith(".pdf")
