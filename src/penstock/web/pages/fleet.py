"""`/fleet`: workers with their leases and pools, the connections that they share, limits and breakers."""

from typing import Annotated

from fastapi import APIRouter, Form, Request, Response

from penstock.engine.budget import connections_needed, read_budget
from penstock.web import fleet
from penstock.web.caller import Admins, Reads
from penstock.web.pages.look import back, show
from penstock.web.parameters import Storable

routes = APIRouter(prefix="/fleet", include_in_schema=False)


@routes.get("", response_class=Response)
async def show_fleet(caller: Reads, request: Request) -> Response:
    """Who works."""
    workers = await fleet.list_workers(caller, gone_within=3600)
    pooled = caller.app.database.reached.address.pooled
    need = connections_needed(caller.app.settings.pool.size, pooled=pooled)
    budget = await caller.app.database.pool.repeat(lambda session: read_budget(session, need, pooled=pooled))
    return show(request, caller, "fleet.html", workers=workers, budget=budget, limits=await fleet.list_limits(caller))


@routes.post("/close", response_class=Response)
async def close_breaker(caller: Admins, limit: Annotated[Storable, Form(min_length=1, max_length=500)]) -> Response:
    """Let calls through again."""
    await fleet.close_breaker(caller, limit)
    return back("/fleet", "closed")
