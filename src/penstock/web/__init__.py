"""The HTTP API."""

from penstock.web.app import make_app
from penstock.web.listen import listen, refuse_unguarded, serve

__all__ = ["listen", "make_app", "refuse_unguarded", "serve"]
