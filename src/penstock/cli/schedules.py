"""`penstock schedule …`: what is declared, when it comes next and how often it was fired; run, pause, resume, remove."""

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from datetime import datetime
from difflib import get_close_matches
from typing import Annotated, Any, TypeVar

import typer

from penstock import engine
from penstock.cli.session import Json, ask, print_json, print_table
from penstock.database import Session
from penstock.errors import BadJob
from penstock.text import listed, span

app = typer.Typer(help="List, run, pause, resume and remove schedules.", no_args_is_help=True, rich_markup_mode=None)
T = TypeVar("T")

MOST = 10_000
Name = Annotated[str, typer.Argument(metavar="NAME")]
FairnessKey = Annotated[str | None, typer.Option(help="Whose; needed if several fairness keys have one of this name.")]


@app.command("list")
def list_schedules(as_json: Json = False) -> None:
    """List the schedules by name."""

    async def look(penstock: engine.Penstock) -> list[engine.ScheduleState]:
        return await penstock.database.pool.repeat(engine.find_schedules, most=MOST)

    found = ask(look)
    if as_json:
        print_json({"schedules": [_as_json(schedule) for schedule in found]})
        return
    if not found:
        typer.echo("There is no schedule.")
        return
    columns = ("name", "fairness_key", "rule", "zone", "kind", "declared", "next", "last", "fired", "skipped", "state")
    print_table(columns, map(_cells, found))


def _as_json(schedule: engine.ScheduleState) -> dict[str, Any]:
    return {key: value for key, value in asdict(schedule).items() if key != "now"}


def _cells(schedule: engine.ScheduleState) -> tuple[object, ...]:
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
    """Put one job of a schedule in now, whatever its rule says; its number."""
    found, number = _change(name, fairness_key, engine.run_schedule)
    if as_json:
        print_json({"schedule": name, "fairness_key": found, "job": number})
    else:
        typer.echo(f"Job {number} is in the queue, for the schedule {name} of the fairness key {found}.")


@app.command()
def pause(name: Name, fairness_key: FairnessKey = None, as_json: Json = False) -> None:
    """Let a schedule fire no more until resume; the ticks of the pause do not count as missed."""
    found, paused = _change(name, fairness_key, engine.pause_schedule)
    _tell(as_json, name, found, "paused", paused, "is paused", "was paused already")


@app.command()
def resume(name: Name, fairness_key: FairnessKey = None, as_json: Json = False) -> None:
    """Go on with the next tick."""
    found, resumed = _change(name, fairness_key, engine.resume_schedule)
    _tell(as_json, name, found, "resumed", resumed, "goes on", "was not paused")


@app.command()
def remove(name: Name, fairness_key: FairnessKey = None, as_json: Json = False) -> None:
    """Remove a schedule that was added by a call or is retired; one that code declares has to go there."""
    found, removed = _change(name, fairness_key, engine.remove_schedule)
    _tell(as_json, name, found, "removed", removed, "is removed", "was removed already")


def _change(name: str, fairness_key: str | None, change: Callable[[Session, str, str], Awaitable[T]]) -> tuple[str, T]:
    """Find the schedule that is meant and change it; its fairness key, and what came of it."""

    async def do(penstock: engine.Penstock) -> tuple[str, T]:
        async with penstock.database.pool.session() as session:
            found = await _fairness_key_of(session, name, fairness_key)
            return found, await change(session, name, found)

    return ask(do)


async def _fairness_key_of(session: Session, name: str, fairness_key: str | None) -> str:
    fairness_keys = [
        found.fairness_key for found in await engine.find_schedules(session, name, fairness_key, most=MOST)
    ]
    if len(fairness_keys) == 1:
        return fairness_keys[0]
    if fairness_keys:
        raise BadJob(f"Several fairness keys have a schedule {name} ({listed(fairness_keys)}): say --fairness-key.")
    others = [found.fairness_key for found in await engine.find_schedules(session, name, most=MOST)]
    if others:
        raise BadJob(f"The fairness key {fairness_key} has no schedule {name}: {listed(others)} has one.")
    near = get_close_matches(name, await engine.schedule_names(session), n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else "`penstock schedule list` shows all."
    raise BadJob(f"There is no schedule {name}: {hint}")


def _tell(as_json: bool, name: str, fairness_key: str, what: str, done: Any, yes: str, no: str) -> None:
    if as_json:
        print_json({"schedule": name, "fairness_key": fairness_key, what: bool(done)})
    else:
        typer.echo(f"The schedule {name} of the fairness key {fairness_key} {yes if done else no}.")
