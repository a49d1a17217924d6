"""A link is good for what it was made for, until it expires; with any part of it changed it is good for nothing."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from penstock.access.tokens import LINK_LIFETIME, check_link, sign_link
from penstock.errors import NotFound, Refused

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
KEYS = {"k1": b"1" * 32, "k2": b"2" * 32, "weak": b"w"}
texts = st.text(max_size=20)
ids = st.integers(0, 2**63)
TOKEN = sign_link(KEYS["k1"], "k1", method="GET", document=7, tenant="a", expires=NOW + LINK_LIFETIME, now=NOW)


def is_good(token: str, *, method: str = "GET", document: int = 7, tenant: str = "a", now: datetime = NOW) -> bool:
    try:
        check_link(KEYS, token, method=method, document=document, tenant=tenant, now=now)
    except Refused as refusal:
        assert refusal.status == 404
        return False
    return True


@given(method=st.sampled_from(["GET", "HEAD", "get"]), document=ids, tenant=texts, seconds=st.integers(1, 900))
def test_what_was_signed_is_good(method: str, document: int, tenant: str, seconds: int) -> None:
    expires = NOW + timedelta(seconds=seconds)
    token = sign_link(KEYS["k2"], "k2", method=method, document=document, tenant=tenant, expires=expires, now=NOW)
    assert is_good(token, method=method, document=document, tenant=tenant)
    assert is_good(token, method=method, document=document, tenant=tenant, now=expires - timedelta(milliseconds=1))
    assert not is_good(token, method=method, document=document, tenant=tenant, now=expires)


@given(method=texts, document=ids, tenant=texts)
def test_it_is_good_for_nothing_else(method: str, document: int, tenant: str) -> None:
    assume((method.upper(), document, tenant) != ("GET", 7, "a"))
    assert not is_good(TOKEN, method=method, document=document, tenant=tenant)


@given(place=st.integers(0, len(TOKEN) - 1), character=st.characters())
def test_a_changed_character(place: int, character: str) -> None:
    assume(TOKEN[place] != character)
    assert not is_good(TOKEN[:place] + character + TOKEN[place + 1 :])


@given(part=st.integers(0, 3), text=texts)
def test_a_changed_part(part: int, text: str) -> None:
    parts = TOKEN.split(".")
    assume(parts[part] != text)
    parts[part] = text
    assert not is_good(".".join(parts))


@given(seconds=st.integers(-(10**9), 10**9))
def test_a_changed_expiry(seconds: int) -> None:
    version, key, moment, signature = TOKEN.split(".")
    assume(seconds)
    assert not is_good(f"{version}.{key}.{int(moment) + seconds}.{signature}")


@pytest.mark.parametrize("token", ["", "v1", TOKEN + "=", TOKEN + "\n", TOKEN[:-1], "v2" + TOKEN[2:], TOKEN * 1000])
def test_the_wrong_form(token: str) -> None:
    assert not is_good(token)


@pytest.mark.parametrize("key", ["k2", "weak", "unknown"])
def test_another_key(key: str) -> None:
    assert not is_good(TOKEN.replace("k1", key))


def test_an_unknown_key_is_not_the_empty_one() -> None:
    token = sign_link(bytes(32), "unknown", method="GET", document=7, tenant="a", expires=NOW + LINK_LIFETIME, now=NOW)
    assert not is_good(token)


def test_a_link_from_the_future_is_not_good_yet() -> None:
    """A signer whose clock is wrong makes nothing that lives longer than 15 minutes."""
    assert is_good(TOKEN)
    assert not is_good(TOKEN, now=NOW - timedelta(seconds=1))


@pytest.mark.parametrize("after", [timedelta(0), timedelta(seconds=-1), LINK_LIFETIME + timedelta(seconds=1)])
def test_no_link_lives_longer(after: timedelta) -> None:
    with pytest.raises(ValueError, match="within 15 minutes"):
        sign_link(KEYS["k1"], "k1", method="GET", document=7, tenant="a", expires=NOW + after, now=NOW)


@pytest.mark.parametrize(("secret", "key"), [(b"short", "k1"), (b"1" * 32, "a.b"), (b"1" * 32, "")])
def test_a_key_of_the_wrong_form(secret: bytes, key: str) -> None:
    with pytest.raises(ValueError, match=r"bytes|letters"):
        sign_link(secret, key, method="GET", document=7, tenant="a", expires=NOW + LINK_LIFETIME, now=NOW)


def test_the_refusal_says_what_to_do() -> None:
    with pytest.raises(NotFound, match="Ask for a new one"):
        check_link(KEYS, TOKEN, method="GET", document=8, tenant="a", now=NOW)
