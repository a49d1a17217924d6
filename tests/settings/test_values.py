import re
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.settings.settings import Settings
from penstock.settings.types import DatabaseUrl, format_duration, mask_credentials, parse_duration

CANARY = "kanarienvogel"


@pytest.mark.parametrize(
    ("text", "shown", "password"),
    [
        (f"postgresql://ada:{CANARY}@db/x", "postgresql://ada:***@db/x", CANARY),
        (f"postgres://ada:{CANARY}@db:5432,[::1]:5/x?a=b", "postgres://ada:***@db:5432,[::1]:5/x?a=b", CANARY),
        (f"postgresql://ada:{CANARY}%2F%40@db/x", "postgresql://ada:***@db/x", f"{CANARY}/@"),
        (f"postgresql://ada:a@{CANARY}\"'<@db/x", "postgresql://ada:***@db/x", f"a@{CANARY}\"'<"),
        (
            f"postgresql://db/x?user=a&password={CANARY}\"'&b=c",
            "postgresql://db/x?user=a&password=***&b=c",
            f"{CANARY}\"'",
        ),
        (f"postgresql://:{CANARY}@/x?host=/run/pg", "postgresql://:***@/x?host=/run/pg", CANARY),
        ("postgresql://ada@db/x", "postgresql://ada@db/x", None),
        ("postgresql:///x", "postgresql:///x", None),
    ],
)
def test_a_database_url_shows_no_password(text: str, shown: str, password: str | None) -> None:
    url = DatabaseUrl(text)
    assert str(url) == f"{url}" == shown
    assert CANARY not in repr(url)
    assert url.reveal() == text
    assert url.password == password
    settings = Settings.model_validate({"database_url": f" {text} "})
    assert settings.database_url == url
    assert CANARY not in repr(settings) + str(settings) + settings.model_dump_json() + str(settings.model_dump())


@pytest.mark.parametrize(
    ("text", "other"),
    [
        (f"postgresql://ada:{CANARY}@db:5432/x?a=b", f"postgresql://ada:{CANARY}@db:5432/y?a=b"),
        ("postgresql://u:p@/db?host=/run&port=5", "postgresql://u:p@/y?host=/run&port=5"),
        ("postgresql://db", "postgresql://db/y"),
        ("postgresql://db?dbname=x", "postgresql://db/y"),
        ("postgresql:///x?dbname=z&port=5", "postgresql:///y?port=5"),
    ],
)
def test_with_database(text: str, other: str) -> None:
    assert DatabaseUrl(text).with_database("y") == DatabaseUrl(other)


def test_with_a_database_of_any_name() -> None:
    assert DatabaseUrl("postgresql://db/x").with_database("a/b@c?d e").reveal() == "postgresql://db/a%2Fb%40c%3Fd%20e"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"postgresql://ada:{CANARY}@db:5432/x?a=b", "postgresql://ada@db:5432/x?a=b"),
        (f"postgresql://ada:a@{CANARY}:@db/x", "postgresql://ada@db/x"),
        (f"postgresql://u:{CANARY}@/db?host=/run&port=5", "postgresql://u@/db?host=/run&port=5"),
        (f"postgresql://db/x?a=b&password={CANARY}&c=d", "postgresql://db/x?a=b&c=d"),
        (f"postgresql://ada@db/x?pass%77ord={CANARY}", "postgresql://ada@db/x"),
        ("postgresql:///x", "postgresql:///x"),
    ],
)
def test_without_password(text: str, shown: str) -> None:
    assert DatabaseUrl(text).without_password == shown


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("see amqp://u:p@h/ and https://a:b@c:1/x@y", "see amqp://u:***@h/ and https://a:***@c:1/x@y"),
        ("postgresql://u:pa/ss?w#d@h/x", "postgresql://u:***@h/x"),
        ("http://h:8080/@scope ada@example.org", "http://h:8080/@scope ada@example.org"),
        ("host=h password=p user=u", "host=h password=*** user=u"),
        ("host=h password='p p' user=u", "host=h password=*** user=u"),
    ],
)
def test_mask_credentials(text: str, masked: str) -> None:
    assert mask_credentials(text) == masked


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("250ms", 0.25),
        ("10s", 10),
        ("5m", 300),
        ("2h", 7200),
        ("1d", 86400),
        ("1h30m", 5400),
        (" 1h 30m ", 5400),
        ("1.5h", 5400),
        ("30", 30),
        ("0.5", 0.5),
        (30, 30),
        (0.25, 0.25),
        (1e-05, 0.00001),
        (timedelta(minutes=1), 60),
    ],
)
def test_parse_duration(text: str | float | timedelta, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text",
    ["s", "5x", "5M", "30m1h", "1h1h", "-5s", "-5", "0", "0s", "0.0000001s", "1.2.3", ".5s", "1e400", "9" * 30 + "d"],
)
def test_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(repr(text))):
        parse_duration(text)


@pytest.mark.parametrize(
    "value",
    [
        0,
        -1,
        0.0,
        float("inf"),
        float("nan"),
        timedelta(0),
        -timedelta(seconds=1),
        True,
        None,
        "",
        " ",
        "inf",
        "٥s",
        "5 minutes",
    ],
)
def test_no_duration_either(value: str | float | timedelta) -> None:
    with pytest.raises(ValueError, match=r"not a duration|too short"):
        parse_duration(value)


@given(st.timedeltas(min_value=timedelta(microseconds=1)))
def test_durations_round_trip(duration: timedelta) -> None:
    assert parse_duration(format_duration(duration)) == duration


def test_format_duration() -> None:
    texts = ["250ms", "1.5ms", "0.001ms", "10s", "1m30s", "1h30m", "2d", "1d1ms"]
    assert [format_duration(parse_duration(text)) for text in texts] == texts
    assert format_duration(parse_duration("90s")) == "1m30s"
    assert format_duration(timedelta(0)) == "0s"
