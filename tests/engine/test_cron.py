"""The rule: what can be read, when it ticks, and what happens when the clocks change."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.schedules import count_ticks, next_tick, read_rule
from penstock.errors import BadJob
from tests.slow import examples

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
BERLIN = "Europe/Berlin"


def moment(text: str) -> datetime:
    return datetime.fromisoformat(f"{text}Z")


def ticks(rule: str, after: str, count: int, zone: str = BERLIN) -> list[str]:
    """The next ones, each asked for by itself, as workers do; in UTC."""
    found, at = [], moment(after)
    for _ in range(count):
        tick = next_tick(rule, zone, at)
        assert tick is not None
        assert tick > at
        found.append(f"{tick:%m-%d %H:%M}")
        at = tick
    return found


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("0 2 * * *", "0 2 * * *"),
        ("  30  2 * jan,feb  mon-fri ", "30 2 * JAN,FEB MON-FRI"),
        ("0 0 l * *", "0 0 L * *"),
        ("every 5m", "every 5m"),
        ("every 300s", "every 5m"),
        (" Every 1h 30m ", "every 1h30m"),
        ("every 90", "every 1m30s"),
        (timedelta(seconds=300), "every 5m"),
        ("every 366d", "every 366d"),
    ],
)
def test_what_is_kept_is_canonical(given: str | timedelta, kept: str) -> None:
    assert read_rule(given, "UTC", NOW) == (kept, "UTC")
    assert read_rule(kept, "UTC", NOW) == (kept, "UTC")


@pytest.mark.parametrize(
    ("given", "zone", "sentence"),
    [
        ("whenever", "UTC", "which has five fields: write '0 2"),
        ("* * * * * *", "UTC", "which has five fields"),
        ("61 * * * *", "UTC", r"is not a cron rule \(Bad minute\): write '0 2"),
        ("*/0 * * * *", "UTC", "Bad minute"),
        ("0 0 32 2 *", "UTC", "Bad day-of-month"),
        ("0 0 * * MOO", "UTC", "Bad day-of-week"),
        ("0 0 30 2 *", "UTC", "never comes true: no such month has so many days"),
        ("0 0 31 4,6,9,11 *", "UTC", "never comes true"),
        ("* * * * " + "1," * 100 + "1", "UTC", "is not a rule"),
        ("", "UTC", "is not a rule"),
        (5, "UTC", "'5' is not a rule"),
        (None, "UTC", "'None' is not a rule"),
        ("every day", "UTC", "is not an interval: 'day' is not a duration"),
        ("every 0s", "UTC", "too short"),
        ("every 999ms", "UTC", "whole seconds, from 1s to 366d"),
        ("every 1.5s", "UTC", "whole seconds"),
        ("every 367d", "UTC", "from 1s to 366d"),
        (timedelta(0), "UTC", "too short"),
        (timedelta(days=-1), "UTC", "too short"),
        (timedelta(microseconds=1), "UTC", "whole seconds"),
        ("0 2 * * *", "Europe/Berln", "'Europe/Berln' is not a known time zone: did you mean Europe/Berlin?"),
        ("0 2 * * *", "Europe", "is not a known time zone"),
        ("0 2 * * *", "../../etc/passwd", "is not a known time zone"),
        ("0 2 * * *", "right/UTC", "is not a known time zone"),
        ("0 2 * * *", "localtime", "is not a known time zone"),
        ("0 2 * * *", "\0", "is not a known time zone"),
        ("0 2 * * *", None, "is not a known time zone"),
        ("every 5m", "Mars/Olympus", "is not a known time zone"),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_sentence(given: object, zone: object, sentence: str) -> None:
    with pytest.raises(BadJob, match=sentence):
        read_rule(given, zone, NOW)


def test_intervals_are_multiples_since_the_epoch() -> None:
    assert ticks("every 7m", "1970-01-01T00:00:00", 3, "UTC") == ["01-01 00:07", "01-01 00:14", "01-01 00:21"]
    assert next_tick("every 1s", "UTC", moment("2026-11-15T12:00:00.250")) == moment("2026-11-15T12:00:01")
    assert ticks("every 1h", "2027-03-28T00:30:00", 3) == ["03-28 01:00", "03-28 02:00", "03-28 03:00"], (
        "no zone counts"
    )


def test_what_comes_once_in_28_years_is_found() -> None:
    assert next_tick("0 0 * 2 MON#5", "UTC", NOW) == moment("2044-02-29T00:00:00")
    assert next_tick("0 0 29 2 *", "UTC", NOW) == moment("2028-02-29T00:00:00")


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("30 2 * * *", ["03-27 01:30", "03-28 01:00", "03-29 00:30"]),  # right after the gap
        ("15,45 2 * * *", ["03-27 01:15", "03-27 01:45", "03-28 01:00", "03-29 00:15"]),  # both fell into it: once
        ("0 3 * * *", ["03-27 02:00", "03-28 01:00", "03-29 01:00"]),
        ("0 2,3 * * *", ["03-27 01:00", "03-27 02:00", "03-28 01:00", "03-29 00:00"]),
        ("0 12 * * SUN", ["03-28 10:00", "04-04 10:00"]),
    ],
)
def test_in_spring_a_fixed_time_comes_once_a_day(rule: str, expected: list[str]) -> None:
    assert ticks(rule, "2027-03-27T00:59:00", len(expected)) == expected


def test_in_spring_a_star_goes_on_through_the_gap() -> None:
    assert ticks("*/30 * * * *", "2027-03-28T00:00:00", 4) == [
        "03-28 00:30",
        "03-28 01:00",
        "03-28 01:30",
        "03-28 02:00",
    ]
    assert ticks("* * * * *", "2027-03-28T00:58:00", 3) == ["03-28 00:59", "03-28 01:00", "03-28 01:01"]
    assert ticks("*/30 2 * * *", "2027-03-27T12:00:00", 1) == ["03-29 00:00"], "there is no such hour on that day"


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("30 2 * * *", ["10-25 00:30", "10-26 01:30", "10-27 01:30"]),  # the first of two
        ("0 3 * * *", ["10-25 02:00", "10-26 02:00"]),
        ("15,45 2 * * *", ["10-25 00:15", "10-25 00:45", "10-26 01:15"]),
    ],
)
def test_in_autumn_a_fixed_time_comes_once_a_day(rule: str, expected: list[str]) -> None:
    assert ticks(rule, "2026-10-24T23:59:00", len(expected)) == expected


def test_in_autumn_a_star_runs_in_both_hours() -> None:
    assert ticks("*/30 2 * * *", "2026-10-24T12:00:00", 5) == [
        "10-25 00:00", "10-25 00:30", "10-25 01:00", "10-25 01:30", "10-26 01:00",
    ]  # fmt: skip
    assert ticks("0 * * * *", "2026-10-25T00:00:00", 3) == ["10-25 01:00", "10-25 02:00", "10-25 03:00"]
    assert ticks("* * * * *", "2026-10-25T00:58:00", 3) == ["10-25 00:59", "10-25 01:00", "10-25 01:01"]


def test_a_look_in_the_second_of_two_equal_hours_does_not_find_the_first_again() -> None:
    """Berlin, half past two for the second time: cronsim alone answers with the first, an hour ago."""
    assert ticks("30 2 * * *", "2026-10-25T01:20:00", 1) == ["10-26 01:30"]
    assert ticks("45 2 * * *", "2026-10-25T01:30:00", 1) == ["10-26 01:45"]


CHANGES = ["2026-10-25T01:00:00", "2027-03-28T01:00:00"]
FIELDS = st.tuples(
    st.sampled_from(["0", "30", "15,45", "*", "*/7", "*/30", "59"]),
    st.sampled_from(["*", "2", "1-4", "*/2", "3", "0,2,3", "23"]),
)


@settings(max_examples=examples(80), deadline=None)
@given(FIELDS, st.sampled_from(CHANGES), st.integers(-300, 300), st.sampled_from([BERLIN, "America/Santiago", "UTC"]))
def test_where_one_begins_does_not_matter(fields: tuple[str, str], change: str, minutes: int, zone: str) -> None:
    """The ticks are a set: a worker that looks later finds the same ones, none twice and none between."""
    rule = f"{fields[0]} {fields[1]} * * *"
    begin = moment(change) - timedelta(hours=6)
    known, at = [], begin
    while at < moment(change) + timedelta(hours=12):
        following = next_tick(rule, zone, at)
        assert following is not None
        known.append(at := following)
    assert all(earlier < later for earlier, later in pairwise(known))
    look = moment(change) + timedelta(minutes=minutes, seconds=17)
    assert next_tick(rule, zone, look) == min(tick for tick in known if tick > look)


@pytest.mark.parametrize("rule", ["every 1m", "* * * * *"])
def test_counting_what_was_missed(rule: str) -> None:
    first = moment("2026-11-15T12:00:00")
    counted = count_ticks(rule, "UTC", first, first + timedelta(minutes=7, seconds=30), most=100)
    assert counted == (8, first + timedelta(minutes=7), first + timedelta(minutes=8))
    assert count_ticks(rule, "UTC", first, first, most=100) == (1, first, first + timedelta(minutes=1))


def test_counting_is_bounded_for_cron_and_needs_no_walk_for_intervals() -> None:
    first = moment("2026-11-15T12:00:00")
    assert count_ticks("* * * * *", "UTC", first, first + timedelta(days=365), most=50)[0] == 50
    assert count_ticks("every 1s", "UTC", first, first + timedelta(days=365), most=50)[0] == 365 * 86400 + 1
