"""The HTTP application: routes by noun, and pages, over one open product."""

from functools import cache

from fastapi import APIRouter, Depends, FastAPI
from starlette.routing import BaseRoute

from penstock import __version__
from penstock.operations import ApiCheck, FleetGauges
from penstock.product import Product
from penstock.web import health, pages
from penstock.web.api import (
    access,
    collections,
    content,
    crawls,
    documents,
    events,
    facts,
    fleet,
    jobs,
    packets,
    search,
    sources,
    streams,
    uploads,
)
from penstock.web.dependencies import check_declared, refuse_unknown_parameters
from penstock.web.middleware.auth import Authentication, Authenticator, SecurityHeaders
from penstock.web.middleware.errors import handle_problems
from penstock.web.middleware.rate_limit import AddressLimits, RateLimits
from penstock.web.middleware.request_body import RequestBodies
from penstock.web.pages.overview import OverviewCache
from penstock.web.server import UNTRACED, RequestTimes, Tracing


def make_app(product: Product) -> FastAPI:
    """The application of this process; the product is open for as long as it serves."""
    app = FastAPI(
        title="Penstock",
        version=__version__,
        description="Documents in, answers out.",
        openapi_url="/api/openapi.json",
        docs_url=None,  # their pages load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        telemetry=UNTRACED,
    )
    app.state.product = product
    app.state.database = product.app.database
    app.state.authenticator = Authenticator(product.app.database, product.settings.api)
    app.state.gauges = FleetGauges(product.app.database)
    app.state.inbox_capacity = sources.InboxCapacity(product)
    app.state.readiness = health.Readiness(ApiCheck(product.app.database, stale_after=product.settings.api.stale_after))
    app.state.overview_cache = OverviewCache()
    app.state.changes = events.Changes(product.app.database)
    app.router.routes.extend(_all_routes())
    # From the inside to the outside. All refusals come from inside of RequestBodies, which lets a client read them in the midst
    # of an upload.
    app.add_middleware(RateLimits, rates=product.settings.rates)
    app.add_middleware(Authentication, authenticator=app.state.authenticator)
    app.add_middleware(AddressLimits, rates=product.settings.rates)
    app.add_middleware(pages.ErrorPages)
    app.add_middleware(SecurityHeaders)
    app.add_middleware(RequestBodies)
    app.add_middleware(Tracing)
    app.add_middleware(RequestTimes)
    handle_problems(app)
    check_declared(app)
    return app


@cache
def _all_routes() -> list[BaseRoute]:
    """The routes of every application of this process. FastAPI builds the models of a route that is included at its first
    request, 40 ms for the first API call and 150 ms for the first page: once is enough."""
    included = APIRouter(generate_unique_id_function=lambda route: route.name)  # generated clients name functions so
    for routes in (
        collections.routes,
        uploads.routes,
        documents.routes,
        documents.deletion_routes,
        content.routes,
        packets.routes,
        crawls.routes,
        search.routes,
        facts.routes,
        jobs.routes,
        fleet.routes,
        sources.routes,
        events.routes,
        health.status_routes,
        jobs.why_routes,
        access.routes,
        access.session_routes,
        health.routes,
        sources.webhook_routes,
        streams.routes,
        documents.named_routes,
        *pages.ROUTERS,
    ):
        included.include_router(routes, dependencies=[Depends(refuse_unknown_parameters)])
    return included.routes
