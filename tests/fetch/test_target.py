import pytest
from hypothesis import given
from hypothesis import strategies as some

from penstock.errors import FetchRefused
from penstock.fetch.target import read_target

PORTS = frozenset({80, 443, 8080})


@pytest.mark.parametrize(
    ("text", "url", "host", "port"),
    [
        ("http://example.org/", "http://example.org/", "example.org", 80),
        (" HTTPS://EXAMPLE.org/A?b=c#d ", "https://example.org/A?b=c", "example.org", 443),
        ("http://example.org./x", "http://example.org/x", "example.org", 80),
        ("http://example.org:8080/x", "http://example.org:8080/x", "example.org", 8080),
        ("http://bücher.example/ü", "http://xn--bcher-kva.example/%C3%BC", "xn--bcher-kva.example", 80),
        ("http://my_host/", "http://my_host/", "my_host", 80),
        ("http://192.0.2.1./", "http://192.0.2.1/", "192.0.2.1", 80),
        ("http://127。0。0。1/", "http://127.0.0.1/", "127.0.0.1", 80),
        ("http://①②⑦.0.0.1/", "http://127.0.0.1/", "127.0.0.1", 80),
        ("http://[0:0::ffff:127.0.0.1]/", "http://[::ffff:7f00:1]/", "::ffff:7f00:1", 80),
        ("http://[2001:DB8::1]:8080/", "http://[2001:db8::1]:8080/", "2001:db8::1", 8080),
    ],
)
def test_read_target(text: str, url: str, host: str, port: int) -> None:
    target = read_target(text, PORTS)
    assert (str(target.url), target.host, target.port) == (url, host, port)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "begin with http"),
        ("example.org/x", "begin with http"),
        ("//example.org/x", "begin with http"),
        ("ftp://example.org/x", "begin with http"),
        ("file:///etc/passwd", "begin with http"),
        ("gopher://example.org/", "begin with http"),
        ("data:text/plain,x", "begin with http"),
        ("javascript:alert(1)", "begin with http"),
        ("http:///x", "no usable host"),
        ("http://./", "no usable host"),
        ("http://a..b/", "not a URL|no usable host"),
        ("http://-a/", "no usable host"),
        ("http://a%2eb/", "no usable host"),
        ("http://%31%32%37.0.0.1/", "malformed|no usable host"),
        (f"http://{'a.' * 130}org/", "no usable host|not a URL"),
        ("http://example.org:22/", "Port 22"),
        ("http://example.org:0/", "Port 0"),
        ("http://example.org:99999/", "not a URL"),
        ("http://example.org:x/", "not a URL"),
        ("http://user@example.org/", "user or password"),
        ("http://:hunter2@example.org/", "user or password"),
        ("http://user:hunter2@example.org/", "user or password"),
        ("http://example.org\\@127.0.0.1/", "U\\+005C"),
        ("http://exam\tple.org/", "U\\+0009"),
        ("http://example.org/\r\nHost: x", "U\\+000D"),
        ("http://example.org/a b", "U\\+0020"),
        ("http://example.org/\ud800", "U\\+D800"),
        ("http://0x7f.1/", "malformed address"),
        ("http://0x7f000001/", "malformed address"),
        ("http://2130706433/", "malformed address"),
        ("http://017700000001/", "malformed address"),
        ("http://0177.0.0.1/", "malformed address"),
        ("http://127.1/", "malformed address"),
        ("http://127.0.0.1.5/", "malformed address"),
        ("http://example.0x7f/", "malformed address"),
        ("http://[fe80::1%25eth0]/", "zone"),
        ("http://[::1/", "not a URL"),
        ("http://[127.0.0.1]/", "not a URL"),
        ("http://[example.org]/", "not a URL"),
        ("http://example.org/" + "a" * 8000, "8,019 characters"),
    ],
)
def test_refused(text: str, why: str) -> None:
    with pytest.raises(FetchRefused, match=why) as caught:
        read_target(text, PORTS)
    assert "hunter2" not in str(caught.value)


def test_what_is_shown_has_no_query() -> None:
    assert read_target("http://example.org/a?token=secret", PORTS).shown == "http://example.org/a"
    assert read_target("http://example.org//b/%0Ac?d", PORTS).shown == "http://example.org//b/%0Ac"
    assert len(read_target(f"http://example.org/{'a' * 5000}", PORTS).shown) == 200


@given(some.text(max_size=60), some.sampled_from(["", "http://", "https://[", "http://a:"]))
def test_any_text_is_a_target_or_refused(text: str, start: str) -> None:
    try:
        target = read_target(start + text, PORTS)
    except FetchRefused:
        return
    assert target.url.scheme in {"http", "https"}
    assert target.url.raw_host == target.host
    assert target.shown.isprintable()
    assert read_target(str(target.url), PORTS) == target
