"""The HTTP application: routes by noun, over one open database."""

from fastapi import FastAPI

from penstock import __version__
from penstock.database import Database
from penstock.web import health


def make_app(database: Database) -> FastAPI:
    """The application of this process; the database is open for as long as it serves."""
    app = FastAPI(title="Penstock", version=__version__, docs_url=None, redoc_url=None)
    app.state.database = database
    app.include_router(health.routes)
    return app
