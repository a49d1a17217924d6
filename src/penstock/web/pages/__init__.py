"""The dashboard: pages for people, made on the server, over the same product as the API.

Each noun has a module with its routes, and a template. A page needs no script to be read or to act: its forms are plain, and
answered by a redirect. With scripts it follows what happens, and takes files that are dropped on it (static/live.js).
"""

from penstock.web.pages import (
    assets,
    document,
    documents,
    fleet,
    inbox,
    jobs,
    overview,
    packets,
    schedules,
    search,
    signing,
)
from penstock.web.pages.readable import Readable

ROUTERS = tuple(
    part.routes
    for part in (
        assets,
        signing,
        overview,
        documents,
        document,
        search,
        packets,
        jobs,
        inbox,
        schedules,
        fleet,
    )
)

__all__ = ["ROUTERS", "Readable"]
