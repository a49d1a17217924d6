"""The level: slow start, halving once per round trip, and how near it stays to a capacity that it does not know."""

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.limits.limiter import AdaptiveLimit


def round_trip(level: AdaptiveLimit, now: float, capacity: float = inf, most: int = 1000) -> int:
    """All calls of a full level begin at `now` and end one second later; how many went well."""
    calls = int(level.value)
    well = int(min(calls, capacity))
    for _ in range(calls - well):  # a refusal comes at once
        level.shrink(now, now + 0.1, most)
    for _ in range(well):
        level.succeed(now, in_use=True, most=most, pool_use=0.0)
    return well


def test_it_starts_at_one_and_doubles_with_each_round_trip() -> None:
    level = AdaptiveLimit()
    seen = []
    for now in range(6):
        seen.append(level.value)
        round_trip(level, now)
    assert seen == [1, 2, 4, 8, 16, 32]


def test_it_never_grows_above_what_was_granted() -> None:
    level = AdaptiveLimit()
    for now in range(10):
        round_trip(level, now, most=20)
    assert level.value == 20


def test_many_refusals_of_one_round_trip_halve_once() -> None:
    level = AdaptiveLimit(value=40.0)
    for _ in range(40):
        level.shrink(began=5.0, now=6.0, most=100)
    assert (level.value, level.threshold) == (20.0, 34.0)
    level.shrink(began=5.9, now=6.5, most=100)
    assert level.value == 20.0, "it began before the halving: known already"
    level.shrink(began=6.1, now=7.0, most=100)
    assert level.value == 10.0


def test_what_began_before_the_halving_raises_it_to_the_threshold_at_most() -> None:
    level = AdaptiveLimit(value=40.0)
    level.shrink(began=5.0, now=6.0, most=100)
    for _ in range(40):
        level.succeed(5.5, in_use=True, most=100, pool_use=0.0)
    assert level.value == 34.0


def test_when_nothing_comes_back_it_falls_to_one() -> None:
    level = AdaptiveLimit(value=40.0)
    for now in range(10):
        level.shrink(now, now + 0.5, most=100)
    assert level.value == 1.0


def test_fast_up_to_the_threshold_and_by_one_per_round_trip_above() -> None:
    level = AdaptiveLimit(value=40.0)
    level.shrink(began=0.0, now=1.0, most=100)
    round_trip(level, 2.0)
    assert 34 <= level.value < 35
    before = level.value
    round_trip(level, 3.0)
    assert 0.9 < level.value - before < 1.1


def test_a_level_that_is_not_used_does_not_grow() -> None:
    level = AdaptiveLimit(value=8.0)
    level.succeed(1.0, in_use=False, most=100, pool_use=0.0)
    assert level.value == 8.0


def test_a_busy_pool_stops_growth_and_a_full_one_halves() -> None:
    level = AdaptiveLimit(value=8.0)
    level.succeed(1.0, in_use=True, most=100, pool_use=0.51)
    level.feel_pool(0.8, 2.0, 100)
    assert level.value == 8.0
    level.feel_pool(0.81, 3.0, 100)
    assert level.value == 4.0


def test_near_a_hidden_capacity_it_stays_near() -> None:
    level = AdaptiveLimit()
    best = [round_trip(level, now, capacity=40) for now in range(60)]
    assert sum(best[30:]) >= 0.9 * 30 * 40
    halved = [round_trip(level, 100 + now, capacity=20) for now in range(60)]
    assert sum(halved[30:]) >= 0.9 * 30 * 20


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 2), st.booleans(), st.integers(0, 50)), max_size=60))
def test_it_stays_between_one_and_what_was_ever_granted(
    events: list[tuple[bool, float, bool, int]],
) -> None:
    level, highest = AdaptiveLimit(), 1
    for now, (well, age, in_use, most) in enumerate(events):
        highest = max(highest, most)
        if well:
            level.succeed(now - age, in_use=in_use, most=most, pool_use=0.0)
        else:
            level.shrink(now - age, now, most)
        assert 1 <= level.value <= highest
