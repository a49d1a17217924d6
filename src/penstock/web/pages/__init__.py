"""The dashboard: pages for people, rendered on the server, over the same product as the API.

Each noun has a module with its routes, and a template. A page needs no script to be read or to act: its forms are plain, and
answered by a redirect. With scripts it follows what happens (static/live.js) and takes files that are dropped on it
(static/upload.js).
"""

from penstock.web.pages import anonymous, document, documents, operations, overview, packets, reference, render, search
from penstock.web.pages.anonymous import ErrorPages as ErrorPages

ROUTERS = (
    render.asset_routes,
    anonymous.routes,
    overview.routes,
    documents.routes,
    document.routes,
    search.routes,
    reference.routes,
    packets.routes,
    operations.job_routes,
    operations.inbox_routes,
    operations.schedule_routes,
    operations.fleet_routes,
)
