"""The HTTP application: routes by noun, and pages, over one open product."""

from fastapi import FastAPI

from penstock import __version__
from penstock.operations import FleetGauges
from penstock.pipelines import Product
from penstock.web import (
    arriving,
    collections,
    crawls,
    deletion,
    documents,
    downloads,
    engine,
    events,
    facts,
    fleet,
    health,
    images,
    inbox,
    jobs,
    keys,
    packets,
    pages,
    search,
    sessions,
    status,
    streams,
    uploads,
)
from penstock.web.access import Door, Gate, Guarded
from penstock.web.bodies import Bodies
from penstock.web.caller import check_declared
from penstock.web.pages.overview import Glances
from penstock.web.problems import handle_problems
from penstock.web.rates import Addresses, Rates
from penstock.web.traced import UNTRACED, Traced


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
        generate_unique_id_function=lambda route: route.name,  # which clients that are generated call their functions
    )
    app.state.product = product
    app.state.database = product.app.database
    app.state.door = Door(product.app.database, product.settings.api)
    app.state.gauges = FleetGauges(product.app.database)
    app.state.crowds = inbox.Crowds(product)
    app.state.readiness = health.Readiness(product.app.database, product.settings.api.stale_after)
    app.state.glances = Glances()
    app.state.changes = events.Changes(product.app.database)
    for part in (
        collections,
        uploads,
        documents,
        deletion,
        downloads,
        images,
        packets,
        crawls,
        search,
        facts,
        engine,
        fleet,
        arriving,
        events,
        status,
        jobs,
        keys,
        sessions,
        health,
        inbox,
        streams,
    ):
        app.include_router(part.routes)
    app.include_router(documents.named)
    for router in pages.ROUTERS:
        app.include_router(router)
    # From the inside to the outside. Whoever refuses does so inside of Bodies, which lets the client hear it in the middle of
    # an upload.
    app.add_middleware(Rates, rates=product.settings.rates)
    app.add_middleware(Gate, door=app.state.door)
    app.add_middleware(Addresses, rates=product.settings.rates)
    app.add_middleware(pages.Readable)
    app.add_middleware(Guarded)
    app.add_middleware(Bodies)
    app.add_middleware(Traced)
    handle_problems(app)
    check_declared(app)
    return app
