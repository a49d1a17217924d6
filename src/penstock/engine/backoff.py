"""When to try again: pure functions of what has happened."""

from datetime import timedelta

LONGEST = timedelta(hours=1)
LONGEST_OUTAGE_PAUSE = timedelta(minutes=10)
FREE_TRIES = 150  # of one that is alone with an outage: some 24 hours; after that they are charged


def retry_after(failures: int, jitter: float) -> timedelta:
    """Wait 2, 4, 8 … seconds, at most an hour; jitter in [-1, 1] shifts it by up to 10 %."""
    seconds = min(2.0 ** min(failures, 20), LONGEST.total_seconds())
    return timedelta(seconds=seconds * (1 + 0.1 * jitter))


def tries_for(retries: int, *, resource_limit: bool) -> int:
    """How many charged failures a job may have: a job that ran out of memory or time gets fewer."""
    return min(retries, 1) if resource_limit else retries


def outage_pause(attempt: int, jitter: float) -> timedelta:
    """How long to wait for somebody who is away: 2, 4, 8 … seconds, at most the longest rest of a breaker."""
    seconds = min(2.0 ** min(attempt, 20), LONGEST_OUTAGE_PAUSE.total_seconds())
    return timedelta(seconds=seconds * (1 + 0.1 * jitter))
