"""`/api/status`: how things are, as `penstock status --json` tells it. `/metrics`: the same for a scraper."""

from collections import Counter
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field

from penstock import telemetry
from penstock.documents import counts, find_collection
from penstock.errors import NotAllowed, NotFound
from penstock.operations import FleetGauges
from penstock.operations.status import read_status
from penstock.web.caller import Reads
from penstock.web.problems import RESPONSES

routes = APIRouter(tags=["status"], responses=RESPONSES)


class Status(BaseModel):
    """Counts, workers, and what is wrong."""

    documents: dict[str, int] = Field(description="By status: queued, processing, ready, failed, deleted.")
    jobs: dict[str, dict[str, int]] = Field(description="By state: count, leased (a live worker has it), attempted.")
    workers: list[dict[str, Any]]
    problems: list[str] = Field(description="In sentences, with what to do.")


@routes.get("/api/status")
async def show_status(
    caller: Reads, collection: Annotated[str | None, Query(description="Only what belongs to it.")] = None
) -> Status:
    """How things are. Workers, jobs and problems are told to keys of the tenant `default` that are for all collections."""
    if collection is not None:
        found = await find_collection(caller.app, collection, tenant=caller.tenant)
        if not caller.principal.sees(found.id):
            raise NotFound(f"There is no collection {collection}: see the list for those that there are.")
    if caller.runs_fleet:
        return Status.model_validate(await read_status(caller.app, collection=collection))
    names: list[str | None] = [collection]
    if collection is None and caller.principal.collections is not None:
        names = [each.name for each in await caller.collections()]
    counted: Counter[str] = Counter()
    for name in names:
        counted.update(await counts(caller.app, name, tenant=caller.tenant))
    return Status(documents=dict(counted), jobs={}, workers=[], problems=[])


@routes.get("/metrics", response_class=Response, include_in_schema=False)
async def metrics(caller: Reads, request: Request) -> Response:
    """Those of this process and, from the database, those of the fleet."""
    if not caller.runs_fleet:
        raise NotAllowed("Metrics are about everybody: use a key of the tenant `default` for all collections.")
    gauges: FleetGauges = request.app.state.gauges
    return Response(telemetry.render_metrics() + await gauges.render(), media_type=telemetry.METRICS_TYPE)
