"""When the next try is, and when there is none."""

import pytest

from penstock.client import KeyInFlight, NotFound, Unavailable, Unreachable
from penstock.client.transport import Address, Attempts, EventLines, Patience, backoff, expand, query_of


def test_backoff() -> None:
    assert [backoff(failures, 0) for failures in (1, 2, 3, 9, 9999)] == [0.2, 0.4, 0.8, 5, 5]
    assert backoff(2, 1) == 0.2


def test_a_pause_is_at_least_what_was_asked_for() -> None:
    for _ in range(50):
        attempts = Attempts(Patience(), repeatable=True)
        assert 2 <= attempts.pause_after(Unavailable(503, retry_after=2)) <= 2.2
        assert 0.1 <= Attempts(Patience(), repeatable=True).pause_after(Unreachable()) <= 0.2


def test_progress_forgives() -> None:
    attempts = Attempts(Patience(tries=2), repeatable=True)
    for _ in range(5):
        attempts.pause_after(Unreachable())
        attempts.renew()
    attempts.pause_after(Unreachable())
    with pytest.raises(Unreachable):
        attempts.pause_after(Unreachable())


def test_what_is_told_of_a_lost_try() -> None:
    attempts = Attempts(Patience(), repeatable=True)
    attempts.pause_after(Unavailable(503))
    with pytest.raises(KeyInFlight):
        attempts.pause_after(KeyInFlight(409))
    attempts.pause_after(Unreachable())
    attempts.pause_after(KeyInFlight(409))
    with pytest.raises(NotFound) as gone:
        attempts.pause_after(NotFound(404))
    assert gone.value.repeated


@pytest.mark.parametrize("wish", [{"timeout": 0}, {"deadline": -1}, {"tries": 0}])
def test_patience_has_limits(wish: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="more than 0"):
        Patience(**wish)


def test_the_address_and_the_key_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Address.of(None, None) == Address("http://127.0.0.1:8080", None)
    monkeypatch.setenv("PENSTOCK_URL", "https://example.org/penstock/")
    monkeypatch.setenv("PENSTOCK_KEY", "pk_1")
    assert Address.of(None, None) == Address("https://example.org/penstock", "pk_1")
    assert Address.of("http://localhost", "pk_2") == Address("http://localhost", "pk_2")
    assert "pk_1" not in repr(Address.of(None, None))


@pytest.mark.parametrize("url", ["localhost:8080", "ftp://a", "http://", "http://u:p@a", "http://a?b", "http://a:x"])
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(ValueError, match="address"):
        Address.of(url, None)


@pytest.mark.parametrize("key", ["a b", "a\nb", "é"])
def test_a_key_that_is_none(key: str) -> None:
    with pytest.raises(ValueError, match="The key is not valid") as error:
        Address.of(None, key)
    assert key not in str(error.value)


@pytest.mark.parametrize(("url", "ours"), [("http://127.0.0.9", True), ("http://[::1]:8", True), ("http://a.b", False)])
def test_loopback(url: str, ours: bool) -> None:
    assert Address.of(url, None).is_loopback is ours


def test_paths_and_queries() -> None:
    assert expand("/c/{collection}/d/{name}", {"collection": "a/b", "name": "c/../d"}) == "/c/a%2Fb/d/c/%2E%2E/d"
    assert query_of({"a": None, "b": [1, 2], "c": True, "d": {"e": 1}}) == (
        ("b", "1"),
        ("b", "2"),
        ("c", "true"),
        ("d", '{"e": 1}'),
    )


def test_event_lines() -> None:
    lines = EventLines()
    assert [lines.feed(line) for line in ("event: changed", "retry: 50", "data:", "")] == [None, None, None, "changed"]
    assert lines.retry == 0.05
    assert [lines.feed(line) for line in (": ping", "", "data: x", "")] == [None, None, None, "message"]
