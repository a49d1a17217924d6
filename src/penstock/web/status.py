"""`/api/status`: how things are, as `penstock status --json` tells it. `/metrics`: the same for a scraper."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field

from penstock import telemetry
from penstock.documents import find_collection
from penstock.operations import FleetGauges
from penstock.operations.status import read_status
from penstock.web.parameters import Open
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
    product: Open, collection: Annotated[str | None, Query(description="Only what belongs to it.")] = None
) -> Status:
    """How things are."""
    if collection is not None:
        await find_collection(product.app, collection)
    return Status.model_validate(await read_status(product.app, collection=collection))


@routes.get("/metrics", response_class=Response, include_in_schema=False)
async def metrics(request: Request) -> Response:
    """Those of this process and, from the database, those of the fleet."""
    gauges: FleetGauges = request.app.state.gauges
    return Response(telemetry.render_metrics() + await gauges.render(), media_type=telemetry.METRICS_TYPE)
