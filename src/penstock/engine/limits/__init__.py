"""Limits: how many calls to a dependency the whole fleet may have under way, with adaptive concurrency and a breaker."""

from penstock.engine.limits.declare import LimitState, choose_permits, list_limits, unchoose_permits
from penstock.engine.limits.exchange import close_breaker
