"""The breaker as one worker sees it: what counts as a failure, when it opens, and what a probe decides."""

import asyncio
from datetime import timedelta

import pytest

from penstock import LeaseLost, Permanent, RateLimited, Transient
from penstock.engine.limits.breaker import Breaker, News, Probe, Signal, read_signal, rest_after
from penstock.errors import CallTimedOut, ConnectionLost, QueueFull, Resting


@pytest.mark.parametrize(
    ("error", "signal"),
    [
        (None, Signal.SUCCESS),
        (RateLimited(), Signal.REFUSED),
        (TimeoutError(), Signal.TIMEOUT),
        (CallTimedOut(), Signal.TIMEOUT),
        (Transient("503"), Signal.FAILURE),
        (ConnectionResetError(), Signal.FAILURE),
        (Permanent("no such model"), Signal.NOTHING),
        (LeaseLost("gone"), Signal.NOTHING),
        (Resting("of another limit"), Signal.NOTHING),
        (QueueFull("of our own queue"), Signal.NOTHING),
        (ConnectionLost("of our own database"), Signal.NOTHING),
        (asyncio.CancelledError(), Signal.NOTHING),
        (KeyboardInterrupt(), Signal.NOTHING),
    ],
)
def test_what_an_end_says(error: BaseException | None, signal: Signal) -> None:
    assert read_signal(error) is signal


def fail(breaker: Breaker, times: int, began: float = 0.0) -> None:
    for _ in range(times):
        breaker.note(Signal.FAILURE, began, "503", probing=False)


def opened(breaker: Breaker, *, mine: bool, rests_for: float = 0.0, now: float = 10.0) -> None:
    breaker.see(breaker.news, opened=True, rests_for=rests_for, reason="503", mine=mine, now=now)


def test_it_opens_after_failures_in_a_row() -> None:
    breaker = Breaker(3)
    fail(breaker, 2)
    breaker.note(Signal.SUCCESS, 0.0, "", probing=False)
    fail(breaker, 2)
    assert breaker.lets_through(), "the success came between"
    breaker.note(Signal.NOTHING, 0.0, "", probing=False)
    breaker.note(Signal.REFUSED, 0.0, "", probing=False)
    assert breaker.lets_through(), "neither is a failure"
    breaker.note(Signal.TIMEOUT, 0.0, "too slow", probing=False)
    assert not breaker.lets_through()
    assert (breaker.news, breaker.reason) == (News.TRIPPED, "too slow")


def test_only_the_probe_is_let_through_and_only_once() -> None:
    breaker = Breaker(3)
    opened(breaker, mine=True)
    assert breaker.lets_through()
    assert breaker.begin_call()
    assert not breaker.lets_through()
    opened(breaker, mine=True, now=11.0)
    assert not breaker.lets_through(), "it is under way"


@pytest.mark.parametrize(
    ("signal", "news", "probe"),
    [
        (Signal.SUCCESS, News.PROBE_SUCCEEDED, Probe.NONE),
        (Signal.REFUSED, News.PROBE_SUCCEEDED, Probe.NONE),
        (Signal.FAILURE, News.PROBE_FAILED, Probe.NONE),
        (Signal.TIMEOUT, News.PROBE_FAILED, Probe.NONE),
        (Signal.NOTHING, None, Probe.FREE),
    ],
)
def test_what_a_probe_decides(signal: Signal, news: News | None, probe: Probe) -> None:
    breaker = Breaker(3)
    opened(breaker, mine=True)
    breaker.begin_call()
    breaker.note(signal, 11.0, "503", probing=True)
    assert (breaker.news, breaker.probe) == (news, probe)


def test_a_probe_that_was_lost_decides_nothing() -> None:
    breaker = Breaker(3)
    opened(breaker, mine=True)
    breaker.begin_call()
    opened(breaker, mine=False, now=20.0)
    breaker.note(Signal.FAILURE, 11.0, "503", probing=True)
    assert breaker.news is None


def test_news_is_kept_until_it_was_told() -> None:
    breaker = Breaker(1)
    told = breaker.news
    fail(breaker, 1)  # while the row is being read
    assert not breaker.see(told, opened=False, rests_for=0, reason="", mine=False, now=1.0)
    assert breaker.news is News.TRIPPED
    assert not breaker.lets_through()
    assert breaker.see(breaker.news, opened=True, rests_for=30, reason="503", mine=False, now=2.0)
    assert breaker.news is None
    assert breaker.rests(31.9)
    assert not breaker.rests(32.1)


def test_calls_from_before_the_outage_do_not_open_it_again() -> None:
    breaker = Breaker(1)
    opened(breaker, mine=False, now=10.0)
    breaker.see(None, opened=False, rests_for=0, reason="", mine=False, now=20.0)
    fail(breaker, 5, began=15.0)
    assert breaker.lets_through()
    fail(breaker, 1, began=21.0)
    assert not breaker.lets_through()


def test_the_rest_doubles_up_to_ten_minutes() -> None:
    first = timedelta(seconds=30)
    assert [rest_after(first, trips).total_seconds() for trips in (0, 1, 2, 5, 6, 1000)] == [30, 60, 120, 600, 600, 600]
    assert rest_after(timedelta(hours=1), 3) == timedelta(hours=1), "who wants longer, gets it"
