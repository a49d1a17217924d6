"""`/`: is it working? What is wrong in sentences, what was done in the last hour and day, what waits, and who works.

What all viewers of a tenant see alike is read once a second, and does not grow with the number of documents. Counts and what
the doctor says are from the last look, which begins the next one: nobody waits for them.
"""

import json
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

from asyncpg import Record
from fastapi import APIRouter, Request, Response

from penstock.database.tenancy import everybody
from penstock.documents import STATES, Browse, Bucket, Document, browse, counts, read_minutes, waiting_now
from penstock.documents.minutes import SHOWN_TO, Waiting
from penstock.engine.fleet import sql as fleet_sql
from penstock.engine.wording import counted
from penstock.operations.doctor import examine_session
from penstock.operations.finding import Finding
from penstock.web.caller import Caller, Reads
from penstock.web.pages.charts import Column
from penstock.web.pages.kept import Kept
from penstock.web.pages.look import show
from penstock.web.pages.viewing import seen_by

routes = APIRouter(include_in_schema=False)

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
MINUTE, QUARTER = timedelta(minutes=1), timedelta(minutes=15)
FAILURES = 8


@dataclass(frozen=True, slots=True)
class Glance:
    """What the viewers of a tenant see."""

    hour: list[Bucket]
    waiting: list[Waiting]
    failures: list[Document]
    collections: int


@dataclass(frozen=True, slots=True)
class FleetGlance:
    """What is told only to who runs the fleet."""

    findings: list[Finding]
    workers: list[dict[str, Any]]


class Glances:
    """For all viewers of this process."""

    def __init__(self) -> None:
        self.tenants: Kept[Glance] = Kept(1.0)
        # Counting what is not ready takes the longer the more of it there is: nobody waits for it but the first.
        self.statuses: Kept[dict[str, int]] = Kept(1.0, stale=600.0)
        self.days: Kept[list[Bucket]] = Kept(10.0, stale=600.0)  # its columns are of fifteen minutes
        self.fleet: Kept[FleetGlance] = Kept(2.0, stale=60.0)


@routes.get("/", response_class=Response)
async def show_overview(caller: Reads, request: Request) -> Response:
    """Is it working?"""
    glances: Glances = request.app.state.glances
    viewer = (caller.principal.tenant, caller.principal.collections)
    glance = await glances.tenants.get(viewer, partial(_look, caller))
    statuses = await glances.statuses.get(viewer, partial(_count, caller))
    day = await glances.days.get(viewer, partial(_look_back, caller))
    fleet = await glances.fleet.get("fleet", partial(look_at_fleet, caller)) if caller.runs_fleet else None
    return show(
        request,
        caller,
        "overview.html",
        glance=glance,
        shown_to=SHOWN_TO,
        statuses=statuses,
        fleet=fleet,
        problems=[each for each in fleet.findings if not each.note] if fleet else [],
        notes=[each for each in fleet.findings if each.note] if fleet else [],
        hour=_columns(glance.hour, MINUTE),
        quarters=day,
        day=_columns(day, QUARTER),
        ages=_ages(glance.hour),
    )


async def _look(caller: Caller) -> Glance:
    database, tenant, seen = caller.app.database, caller.tenant, await seen_by(caller)
    failed = await browse(caller.app, Browse(collections=seen, status="failed"), most=FAILURES, tenant=tenant)
    return Glance(
        await read_minutes(database, span=HOUR, step=MINUTE, tenant=tenant, collections=seen),
        await waiting_now(database, tenant=tenant, collections=seen),
        failed.documents,
        len(await caller.collections()),
    )


async def _count(caller: Caller) -> dict[str, int]:
    if caller.principal.collections is None:
        return await counts(caller.app, tenant=caller.tenant)
    each = [await counts(caller.app, one.name, tenant=caller.tenant) for one in await caller.collections()]
    return {state: sum(one[state] for one in each) for state in STATES}


async def _look_back(caller: Caller) -> list[Bucket]:
    seen = await seen_by(caller)
    return await read_minutes(caller.app.database, span=DAY, step=QUARTER, tenant=caller.tenant, collections=seen)


async def look_at_fleet(caller: Caller) -> FleetGlance:
    """What is wrong, and who works. Of all tenants: the work is everybody's."""
    app = caller.app
    with everybody():
        async with app.database.pool.session() as session:
            findings = await examine_session(session, app.settings, pooled=app.database.reached.address.pooled)
            workers = await fleet_sql.workers(session, gone_within=timedelta(0))
    return FleetGlance(findings, [describe_worker(each) for each in workers])


def describe_worker(row: Record) -> dict[str, Any]:
    """A worker, for a page."""
    return {**row, "load": json.loads(row["load"]), "silent": row["silent_for"] > row["lease"]}


def _columns(buckets: list[Bucket], step: timedelta) -> list[Column]:
    return [
        Column(
            (("ready", each.ready), ("failed", each.failed)),
            f"{each.at:%H:%M}–{each.at + step:%H:%M} UTC: {counted(each.ready, 'document')} ready, {each.failed:,} failed, "
            f"{each.accepted:,} accepted",
        )
        for each in buckets
    ]


def _ages(buckets: list[Bucket]) -> tuple[list[float], list[str]]:
    values = [each.oldest for each in buckets]
    words = [
        f"{each.at:%H:%M} UTC: the oldest waited {each.oldest:,.0f} s, {each.waiting:,} waited" for each in buckets
    ]
    return values, words
