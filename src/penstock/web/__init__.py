"""The HTTP API."""

from penstock.web.app import make_app
from penstock.web.health import open_port
from penstock.web.server import listen, refuse_unguarded, serve
