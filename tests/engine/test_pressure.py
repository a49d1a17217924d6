"""How much a worker claims while its pool is busy: less, nothing, and again more, by what is measured."""

from penstock.database.pool import PoolState
from penstock.engine.worker import LEAST, BackPressure


def pool(used: int, waiting: int = 0) -> PoolState:
    return PoolState(size=10, open=10, used=used, waiting=waiting)


def test_it_falls_above_four_fifths_and_rises_below_half() -> None:
    pressure = BackPressure()
    assert [pressure.feel(pool(9)) for _ in range(3)] == [0.5, 0.25, 0.125]
    assert pressure.feel(pool(7)) == 0.125, "between the two it stays"
    assert round(pressure.feel(pool(4)), 3) == 0.225
    for _ in range(20):
        pressure.feel(pool(0))
    assert pressure.level == 1.0


def test_nothing_is_claimed_while_somebody_waits_for_a_connection() -> None:
    pressure = BackPressure()
    assert pressure.feel(pool(10, waiting=1)) == 0.0
    assert pressure.critical
    assert pressure.feel(pool(9)) == 0.25, "it goes on carefully"
    for _ in range(20):
        pressure.feel(pool(10, waiting=3))
    assert pressure.level == LEAST, "but never forgets how"
