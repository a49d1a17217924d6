"""`/`: problems in sentences, unread documents, the documents of the last hour and day, what waits, and the workers.

What all viewers of a tenant see alike is read once a second, and its cost does not grow with the number of documents. Counts,
unread documents and the findings of doctor may be older: a viewer gets the last ones, and starts the next reading. After a
form of this page they are read again.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Annotated, Any, Generic, Literal, TypeVar

from fastapi import APIRouter, Form, Request, Response

from penstock.database import all_tenants
from penstock.documents import (
    SHOWN_TO,
    Collection,
    Document,
    DocumentFilter,
    MinuteBucket,
    Waiting,
    browse,
    count_documents,
    read_minutes,
    waiting_now,
)
from penstock.engine import WorkerState, list_workers
from penstock.operations import Finding, examine_session, read_unread
from penstock.text import counted
from penstock.web.dependencies import Caller, Reads
from penstock.web.pages.charts import Column
from penstock.web.pages.render import back, seen_by, show

routes = APIRouter(include_in_schema=False)

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
MINUTE, QUARTER = timedelta(minutes=1), timedelta(minutes=15)
FAILURES = 8  # shown
MOST = 200  # answers that a cache keeps

CameFrom = Annotated[Literal["", "/"], Form()]  # of an action that other pages have too: the page to go back to
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TenantOverview:
    hour: list[MinuteBucket]
    waiting: list[Waiting]
    failures: list[Document]
    collections: int


@dataclass(frozen=True, slots=True)
class FleetOverview:
    findings: list[Finding]
    workers: list[WorkerState]


class OverviewCache:
    """The answers that the viewers of this process share."""

    def __init__(self) -> None:
        self.tenants: SharedCache[TenantOverview] = SharedCache(1.0)
        # The count of what is not ready takes longer the more of it there is, to a bound: only the first viewer waits for it.
        self.statuses: SharedCache[dict[str, int]] = SharedCache(1.0, stale=600.0)
        self.days: SharedCache[list[MinuteBucket]] = SharedCache(10.0, stale=600.0)
        self.fleet: SharedCache[FleetOverview] = SharedCache(2.0, stale=60.0)
        self.unread: SharedCache[dict[str, Any]] = SharedCache(1.0, stale=60.0)


@routes.get("/", response_class=Response)
async def show_overview(caller: Reads, request: Request) -> Response:
    """The overview."""
    cache: OverviewCache = request.app.state.overview_cache
    viewer = (caller.principal.tenant, caller.principal.collections)
    glance = await cache.tenants.get(viewer, partial(_read_tenant, caller))
    statuses = await count_statuses(request, caller)
    day = await cache.days.get(viewer, partial(_read_day, caller))
    unread = await cache.unread.get(viewer, partial(_read_unread, caller))
    fleet = await cache.fleet.get("fleet", partial(read_fleet, caller)) if caller.runs_fleet else None
    findings = fleet.findings if fleet else []  # the most urgent first
    return show(
        request,
        caller,
        "overview.html",
        glance=glance,
        shown_to=SHOWN_TO,
        statuses=statuses,
        fleet=fleet,
        problems=[each for each in findings if each.is_problem],
        notes=[each for each in findings if each.note and not each.acknowledged],
        acknowledged=[each for each in findings if each.acknowledged],
        **unread,
        actions_of=partial(actions_of, caller),
        acknowledgeable=caller.principal.may("admin"),
        hour=_columns(glance.hour, MINUTE),
        quarters=day,
        day=_columns(day, QUARTER),
        ages=_ages(glance.hour),
    )


def back_to_overview(request: Request, did: str) -> Response:
    """After a form of the overview: its findings and unread documents are read again, as the form may have changed them."""
    cache: OverviewCache = request.app.state.overview_cache
    cache.fleet.clear()
    cache.unread.clear()
    return back("/", did)


@dataclass(frozen=True, slots=True)
class Button:
    """What can be done about a finding from the page."""

    word: str
    address: str
    fields: Mapping[str, Any] | None = None  # of a form; None: a link


HERE = {"came_from": "/"}  # an action on this page comes back to it
SHOW_DEAD = Button("Details", "/jobs?state=dead")
# The buttons of a finding, by its name and evidence. A finding without any keeps its command.
ACTIONS: dict[str, Callable[[Mapping[str, Any]], list[Button]]] = {
    "dead-jobs": lambda it: [_retry_or_discard(it), SHOW_DEAD],
    "paused": lambda it: [Button("Resume", "/jobs/resume", {"what": it["what"], "name": it["name"]} | HERE)],
    "breaker-open": lambda it: [Button("Close breaker", "/fleet/close", {"limit": it["name"]} | HERE)],
    "workers-lost": lambda _: [Button("Details", "/fleet")],
    "schedule-paused": lambda it: [Button("Resume", "/schedules/resume", _schedule(it) | HERE)],
    "schedule-retired": lambda it: [Button("Remove", "/schedules/remove", _schedule(it) | HERE)],
    "invariants-stale": lambda _: [Button("Check now", "/schedules/run", {"name": "check-invariants"} | HERE)],
    "checks-stale": lambda _: [Button("Check now", "/schedules/run", {"name": "check-documents"} | HERE)],
}


def _retry_or_discard(cause: Mapping[str, Any]) -> Button:
    fingerprint = {"fingerprint": cause["fingerprint"]}
    if cause["unwanted"]:
        return Button("Discard", "/jobs/discard", fingerprint | {"reason": "its parent is over"})
    return Button("Retry", "/jobs/redrive", fingerprint)


def _schedule(schedule: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": schedule["name"], "fairness_key": schedule["fairness_key"]}


def actions_of(caller: Caller, finding: Finding) -> list[Button]:
    """The buttons of a finding, for a viewer that may use them."""
    made = ACTIONS.get(finding.name)
    return made(finding.evidence) if made and caller.principal.may("admin") else []


async def _read_tenant(caller: Caller) -> TenantOverview:
    database, tenant, seen = caller.app.database, caller.tenant, await seen_by(caller)
    failed = await browse(caller.app, DocumentFilter(collections=seen, status="failed"), most=FAILURES, tenant=tenant)
    return TenantOverview(
        await read_minutes(database, span=HOUR, step=MINUTE, tenant=tenant, collections=seen),
        await waiting_now(database, tenant=tenant, collections=seen),
        failed.documents,
        len(await caller.collections()),
    )


async def _read_unread(caller: Caller) -> dict[str, Any]:
    return await read_unread(caller.app, among=await seen_by(caller), tenant=caller.tenant)


async def count_statuses(request: Request, caller: Caller, collection: Collection | None = None) -> dict[str, int]:
    """Documents by status, in one collection or in all that the viewer sees."""
    cache: OverviewCache = request.app.state.overview_cache
    if collection is not None:
        count = partial(count_documents, caller.app, collection.name, tenant=caller.tenant)
        return await cache.statuses.get((caller.tenant, collection.id), count)
    viewer = (caller.principal.tenant, caller.principal.collections)
    return await cache.statuses.get(viewer, caller.count_documents)


async def _read_day(caller: Caller) -> list[MinuteBucket]:
    seen = await seen_by(caller)
    return await read_minutes(caller.app.database, span=DAY, step=QUARTER, tenant=caller.tenant, collections=seen)


async def read_fleet(caller: Caller) -> FleetOverview:
    """Findings and workers, of all tenants."""
    app = caller.app
    with all_tenants():
        async with app.database.pool.session() as session:
            findings = await examine_session(session, app.settings, pooled=app.database.endpoint.address.pooled)
            workers = await list_workers(session)
    return FleetOverview(findings, workers)


def _columns(buckets: list[MinuteBucket], step: timedelta) -> list[Column]:
    return [
        Column(
            (("ready", each.ready), ("failed", each.failed)),
            f"{each.at:%H:%M}–{each.at + step:%H:%M} UTC: {counted(each.ready, 'document')} ready, {each.failed:,} failed, "
            f"{each.accepted:,} accepted",
        )
        for each in buckets
    ]


def _ages(buckets: list[MinuteBucket]) -> tuple[list[float], list[str]]:
    values = [each.oldest for each in buckets]
    words = [
        f"{each.at:%H:%M} UTC: the oldest waited {each.oldest:,.0f} s, {each.waiting:,} waited" for each in buckets
    ]
    return values, words


# -- answers shared by viewers --------------------------------------------------------------------------------------


class SharedCache(Generic[T]):
    """Answers that many viewers ask for at the same time: read once, and shared.

    An answer that is not fresh any more is read again; until it is stale, the old one is given meanwhile.
    """

    def __init__(self, fresh: float, stale: float = 0.0) -> None:
        self._fresh = fresh
        self._stale = max(fresh, stale)
        self._known: OrderedDict[Hashable, tuple[float, T]] = OrderedDict()
        self._making: dict[Hashable, asyncio.Task[T]] = {}

    async def get(self, key: Hashable, make: Callable[[], Awaitable[T]]) -> T:
        made_at, answer = self._known.get(key, (float("-inf"), None))
        age = time.monotonic() - made_at
        if age <= self._fresh and answer is not None:
            return answer
        task = self._making.get(key)
        if task is None:
            task = self._making[key] = asyncio.create_task(self._make(key, make), name="shared answer")
            task.add_done_callback(partial(self._end, key))
            task.add_done_callback(_retrieve_error)  # the viewer that waits for it may leave
        if age <= self._stale and answer is not None:
            return answer
        return await asyncio.shield(task)

    def clear(self) -> None:
        """Forget all answers after a change. A reading under way may be older than the change, so its answer is not kept."""
        self._known.clear()
        self._making.clear()

    def _end(self, key: Hashable, task: "asyncio.Task[T]") -> None:
        if self._making.get(key) is task:
            del self._making[key]

    async def _make(self, key: Hashable, make: Callable[[], Awaitable[T]]) -> T:
        answer = await make()
        if self._making.get(key) is not asyncio.current_task():
            return answer
        self._known[key] = (time.monotonic(), answer)
        self._known.move_to_end(key)
        while len(self._known) > MOST:
            self._known.popitem(last=False)
        return answer


def _retrieve_error(task: "asyncio.Task[T]") -> None:
    """Mark the error as seen: the next viewer runs into it again."""
    if not task.cancelled():
        task.exception()
