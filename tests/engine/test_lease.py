"""A lease is counted from the moment a heartbeat was sent, and ends for its owner before it ends for others."""

import time
from datetime import timedelta

from penstock.engine.heartbeat import FENCE_AT, Lease


def test_the_owner_stops_before_others_may_take_over() -> None:
    lease = Lease(timedelta(seconds=10))
    assert not lease.must_stop
    lease.renew(time.monotonic() - 10 * FENCE_AT - 0.1)
    assert lease.must_stop
    assert FENCE_AT < 1
    lease.renew(time.monotonic())
    assert not lease.must_stop
