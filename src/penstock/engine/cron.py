"""When a schedule ticks: a pure rule, read from text and asked for the next moment.

A rule is a cron expression of five fields (`0 2 * * *`) in a time zone, or an interval (`every 5m`) whose ticks are multiples
of itself since the epoch, so that no restart moves them. All moments are in UTC: a local time comes twice in autumn. When
the clocks change, cronsim does as Debian's cron: a rule with a fixed hour and minute runs once a day, right after the
gap if its time is skipped, and at the first of two equal times; a rule with a star for either follows the real hours.
"""

from datetime import UTC, datetime, timedelta, tzinfo
from difflib import get_close_matches
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from cronsim import CronSim, CronSimError

from penstock.errors import BadJob
from penstock.settings.values import format_duration, parse_duration

EVERY = "every "
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SHORTEST, LONGEST = timedelta(seconds=1), timedelta(days=366)
RULE_MAX = 200  # characters
OF_THIS_MACHINE = ("localtime", "posixrules")  # not the same everywhere
HOW = "write '0 2 * * *' for every day at 2, or 'every 5m'"


def read_rule(given: object, timezone: object, now: datetime) -> tuple[str, str]:
    """The rule and the zone as they are kept; BadJob if they can never tick after `now`."""
    zone = _read_zone(timezone)
    rule = _read_interval(given) if _is_interval(given) else _read_cron(given)
    if next_tick(rule, zone, now) is None:
        raise BadJob(f"The rule {rule!r} never comes true again: choose a date that exists.")
    return rule, zone


@lru_cache(maxsize=16_384)  # schedules share rules: 15 to 50 µs for the first of them, 0.1 µs for the others
def next_tick(rule: str, timezone: str, after: datetime) -> datetime | None:
    """The first tick after this moment, in UTC; None if there is none in fifty years. BadJob if the rule cannot be read."""
    if rule.startswith(EVERY):
        interval = _interval(rule)
        return after - (after - EPOCH) % interval + interval
    try:
        for tick in CronSim(rule, after.astimezone(_zone(timezone))):
            # Begun in the second of two equal hours, it gives ticks of the first again.
            if (moment := tick.astimezone(UTC)) > after:
                return moment
    except CronSimError as error:
        raise BadJob(f"{rule!r} is not a cron rule ({error}): {HOW}.") from None
    except OverflowError:  # the end of the calendar
        pass
    return None


def count_ticks(
    rule: str, timezone: str, first: datetime, now: datetime, most: int
) -> tuple[int, datetime, datetime | None]:
    """From the tick `first` up to `now`: how many, the last of them, and the one that follows; `most` are walked over."""
    if rule.startswith(EVERY):
        interval = _interval(rule)
        number = (now - first) // interval
        latest = first + number * interval
        return number + 1, latest, next_tick(rule, timezone, latest)
    number, latest = 1, first
    following = next_tick(rule, timezone, first)
    while following is not None and following <= now and number < most:
        number, latest = number + 1, following
        following = next_tick(rule, timezone, latest)
    return number, latest, following


# -- reading ------------------------------------------------------------------------------------------------------


def _is_interval(given: object) -> bool:
    return isinstance(given, timedelta) or (isinstance(given, str) and given.strip().lower().startswith(EVERY))


def _read_interval(given: object) -> str:
    """A timedelta goes through its text, too: one place decides what can be."""
    if isinstance(given, timedelta):
        given = EVERY + (format_duration(given) if given > timedelta(0) else "0s")
    return EVERY + format_duration(_interval(str(given).strip()))


def _read_cron(given: object) -> str:
    if not isinstance(given, str) or not 0 < len(given) <= RULE_MAX:
        raise BadJob(f"{str(given)[:50]!r} is not a rule: {HOW}.")
    fields = given.upper().split()
    rule = " ".join(fields)
    if len(fields) != 5:
        raise BadJob(f"{given!r} is not a cron rule, which has five fields: {HOW}.")
    if _is_cron(rule):
        return rule
    if _is_cron(" ".join([*fields[:3], "*", fields[4]])) and _is_cron(" ".join([*fields[:2], "1", *fields[3:]])):
        raise BadJob(f"The rule {rule!r} never comes true: no such month has so many days. Choose a date that exists.")
    raise BadJob(f"{given!r} is not a cron rule ({_fault(rule)}): {HOW}.")


def _is_cron(rule: str) -> bool:
    return _fault(rule) is None


def _fault(rule: str) -> str | None:
    """What is wrong with it; cronsim also refuses 30 February, as a bad day of the month."""
    try:
        CronSim(rule, EPOCH)
    except CronSimError as error:
        return str(error)
    return None


def _read_zone(given: object) -> str:
    try:
        if isinstance(given, str) and given not in OF_THIS_MACHINE and not given.startswith(("posix/", "right/")):
            _zone(given)
            return given
    except BadJob:
        pass
    near = get_close_matches(str(given), available_timezones(), n=1, cutoff=0.6)
    hint = f"did you mean {near[0]}?" if near else "use a name such as Europe/Berlin or UTC."
    raise BadJob(f"{str(given)[:50]!r} is not a known time zone: {hint}")


@lru_cache(maxsize=1024)
def _zone(name: str) -> tzinfo:
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # a folder is an OSError, a path a ValueError
        raise BadJob(f"This machine does not know the time zone {name!r}: install the package tzdata.") from None


@lru_cache(maxsize=1024)
def _interval(rule: str) -> timedelta:
    try:
        length = parse_duration(rule[len(EVERY) :])
    except ValueError as error:
        raise BadJob(f"{rule!r} is not an interval: {error}") from None
    if not SHORTEST <= length <= LONGEST or length % SHORTEST:
        raise BadJob(
            f"An interval of {format_duration(length)} cannot be: use whole seconds, from 1s to {LONGEST.days}d."
        )
    return length
