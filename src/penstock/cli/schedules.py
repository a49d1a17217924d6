"""`penstock schedules`: list, run, pause, resume and remove schedules."""

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, TypeVar

import typer

from penstock.cli.session import Json, ask, did_you_mean, group, print_json, print_table
from penstock.database import Session
from penstock.engine import (
    Penstock,
    ScheduleState,
    find_schedules,
    pause_schedule,
    remove_schedule,
    resume_schedule,
    run_schedule,
    schedule_names,
)
from penstock.errors import BadJob
from penstock.text import listed, span

app = group("List, run, pause, resume and remove schedules.")
T = TypeVar("T")

MOST = 10_000
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the schedule.")]
FairnessKey = Annotated[
    str | None, typer.Option(help="Fairness key; required if several have a schedule of this name.")
]


@app.command("list")
def list_schedules(as_json: Json = False) -> None:
    """List the schedules by name."""

    async def read(penstock: Penstock) -> list[ScheduleState]:
        return await penstock.database.pool.repeat(lambda session: find_schedules(session, most=MOST))

    found = ask(read)
    if as_json:
        print_json({"schedules": [_as_json(schedule) for schedule in found]})
        return
    if not found:
        typer.echo("No schedule exists.")
        return
    columns = ("name", "fairness_key", "rule", "zone", "kind", "declared", "next", "last", "fired", "skipped", "state")
    print_table(columns, map(_cells, found))


def _as_json(schedule: ScheduleState) -> dict[str, Any]:
    return {key: value for key, value in asdict(schedule).items() if key != "now"}


def _cells(schedule: ScheduleState) -> tuple[object, ...]:
    now = schedule.now
    return (
        schedule.name,
        schedule.fairness_key,
        schedule.rule,
        schedule.timezone,
        schedule.kind,
        f"{schedule.origin}, {_distance(schedule.declared_at, now)}",
        "" if schedule.state in {"paused", "retired"} else _moment(schedule.next_at, now),
        _moment(schedule.last_at, now),
        schedule.fired,
        schedule.skipped,
        schedule.state,
    )


def _moment(at: datetime | None, now: datetime) -> str:
    return "" if at is None else f"{at:%Y-%m-%d %H:%M:%S}, {_distance(at, now)}"


def _distance(at: datetime, now: datetime) -> str:
    return f"{span(now - at)} ago" if at <= now else f"in {span(at - now)}"


@app.command()
def run(name: Name, fairness_key: FairnessKey = None, as_json: Json = False) -> None:
    """Enqueue a job of a schedule now."""
    found, job = _change(name, fairness_key, run_schedule)
    if as_json:
        print_json({"schedule": name, "fairness_key": found, "job": job})
    else:
        typer.echo(f"Job {job} is queued for the schedule {name} of the fairness key {found}.")


@app.command()
def pause(name: Name, fairness_key: FairnessKey = None, as_json: Json = False) -> None:
    """Pause a schedule. Its ticks do not count as missed."""
    found, paused = _change(name, fairness_key, pause_schedule)
    _report(as_json, name, found, "paused", paused, "is paused", "was already paused")


@app.command()
def resume(name: Name, fairness_key: FairnessKey = None, as_json: Json = False) -> None:
    """Resume a schedule with its next tick."""
    found, resumed = _change(name, fairness_key, resume_schedule)
    _report(as_json, name, found, "resumed", resumed, "is resumed", "was not paused")


@app.command()
def remove(name: Name, fairness_key: FairnessKey = None, as_json: Json = False) -> None:
    """Remove a schedule that is retired or was added by a call. Remove one that code declares in the code."""
    found, removed = _change(name, fairness_key, remove_schedule)
    _report(as_json, name, found, "removed", removed, "is removed", "was already removed")


def _change(name: str, fairness_key: str | None, change: Callable[[Session, str, str], Awaitable[T]]) -> tuple[str, T]:
    """Find the schedule and change it; its fairness key, and the result."""

    async def do(penstock: Penstock) -> tuple[str, T]:
        async with penstock.database.pool.session() as session:
            found = await _fairness_key_of(session, name, fairness_key)
            return found, await change(session, name, found)

    return ask(do)


async def _fairness_key_of(session: Session, name: str, fairness_key: str | None) -> str:
    fairness_keys = [found.fairness_key for found in await find_schedules(session, name, fairness_key, most=MOST)]
    if len(fairness_keys) == 1:
        return fairness_keys[0]
    if fairness_keys:
        raise BadJob(f"Schedule {name} exists for several fairness keys ({listed(fairness_keys)}): add --fairness-key.")
    others = [found.fairness_key for found in await find_schedules(session, name, most=MOST)]
    if others:
        raise BadJob(f"Schedule {name} does not exist for the fairness key {fairness_key}, but for {listed(others)}.")
    known = await schedule_names(session)
    raise BadJob(f"Schedule {name} does not exist.{did_you_mean(name, known)} `penstock schedules list` shows all.")


def _report(as_json: bool, name: str, fairness_key: str, what: str, done: Any, yes: str, no: str) -> None:
    if as_json:
        print_json({"schedule": name, "fairness_key": fairness_key, what: bool(done)})
    else:
        typer.echo(f"The schedule {name} of the fairness key {fairness_key} {yes if done else no}.")
