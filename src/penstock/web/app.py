"""The HTTP application: routes by noun, over one open product."""

from fastapi import FastAPI

from penstock import __version__
from penstock.operations import FleetGauges
from penstock.pipelines import Product
from penstock.web import collections, documents, downloads, events, health, search, status, uploads
from penstock.web.access import Gate
from penstock.web.bodies import Bodies
from penstock.web.problems import handle_problems


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
        generate_unique_id_function=lambda route: route.name,  # which clients that are generated call their functions
    )
    app.state.product = product
    app.state.database = product.app.database
    app.state.gauges = FleetGauges(product.app.database)
    app.state.changes = events.Changes(product.app.database)
    for part in (collections, uploads, documents, downloads, search, events, status, health):
        app.include_router(part.routes)
    app.include_router(documents.named)
    app.add_middleware(Bodies)
    app.add_middleware(Gate, host=product.app.settings.api.host)  # the last one added is the outermost
    handle_problems(app)
    return app
