"""Policy is pure."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.running import FREE_TRIES, LONGEST, LONGEST_OUTAGE_PAUSE, retry_after, tries_for


def test_waits_double() -> None:
    assert [retry_after(n, 0).total_seconds() for n in range(1, 6)] == [2, 4, 8, 16, 32]


@given(st.integers(0, 10_000), st.floats(-1, 1))
def test_a_wait_is_never_negative_nor_endless(failures: int, jitter: float) -> None:
    assert timedelta(0) < retry_after(failures, jitter) <= 1.1 * LONGEST


@given(st.integers(1, 60), st.floats(-1, 1))
def test_jitter_shifts_by_a_tenth_at_most(failures: int, jitter: float) -> None:
    plain = retry_after(failures, 0)
    assert 0.899 * plain <= retry_after(failures, jitter) <= 1.101 * plain


def test_resource_limits_have_fewer_tries() -> None:
    assert tries_for(5, resource_limit=False) == 5
    assert tries_for(5, resource_limit=True) == 1
    assert tries_for(0, resource_limit=True) == 0


def test_an_outage_is_waited_for_in_steps_of_ten_minutes_for_a_day() -> None:
    waits = [retry_after(attempt, 0, LONGEST_OUTAGE_PAUSE).total_seconds() for attempt in range(1, FREE_TRIES + 1)]
    assert waits[:4] == [2, 4, 8, 16]
    assert max(waits) == 600
    assert 23 * 3600 < sum(waits) < 25 * 3600
