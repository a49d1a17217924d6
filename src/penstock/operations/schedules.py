"""What `doctor` finds about schedules: those that should have fired, that are paused, that nobody declares any more."""

import shlex
from collections.abc import Iterator

from asyncpg import Record

from penstock.engine.wording import counted, listed, moment, span
from penstock.operations.finding import START, Finding


def examine_schedules(overdue: list[Record]) -> Iterator[Finding]:
    if overdue:
        longest = overdue[0]
        said = (
            f"{counted(len(overdue), 'schedule')} should have ticked and did not ({listed([row['name'] for row in overdue])}); "
            f"{longest['name']} is {span(longest['late'])} late. Every worker ticks: start one."
        )
        evidence = {"schedules": [dict(row) for row in overdue]}
        yield Finding("schedule-overdue", said, START, evidence)


def examine_declared(schedules: list[Record]) -> Iterator[Finding]:
    """Declared and not fired, by somebody's will: paused, retired, or by a rule that has no more dates."""
    for row in schedules:
        name = f"The schedule {row['name']} of the share {row['share']}"
        command = f"{shlex.quote(row['name'])} --share {shlex.quote(row['share'])}"
        evidence = {key: row[key] for key in ("name", "share", "rule", "kind", "last_at", "fired", "skipped")}
        if row["state"] == "paused":
            said = f"{name} has been paused since {moment(row['paused_at'], row['now'])}: it does not fire."
            yield Finding("schedule-paused", said, f"penstock schedule resume {command}", evidence)
        elif row["state"] == "retired":
            said = (
                f"{name} is retired since {moment(row['retired_at'], row['now'])}: no worker has declared it "
                "for long, and it does "
                "not fire. If it is not wanted any more, remove it."
            )
            yield Finding("schedule-retired", said, f"penstock schedule remove {command}", evidence, note=True)
