"""The HTTP API."""

from penstock.web.app import make_app
from penstock.web.listen import listen, serve

__all__ = ["listen", "make_app", "serve"]
