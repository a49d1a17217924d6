"""`/static/…`: our own style, script and icon, under an address that has the digest of the content in it.

So a browser may keep them for a year, and a new release is a new address. They tell nothing, and are for everybody.
"""

import hashlib
from functools import cache
from pathlib import Path

from fastapi import APIRouter, Response

from penstock.errors import NotFound

routes = APIRouter(include_in_schema=False)

FOLDER = Path(__file__).with_name("static")
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
PREFIX = "/static/"


@cache
def read_asset(name: str) -> tuple[str, bytes]:
    """Its digest and its bytes."""
    content = (FOLDER / name).read_bytes()
    return hashlib.sha256(content).hexdigest()[:12], content


def address_of(name: str) -> str:
    """Where a page finds it."""
    return f"{PREFIX}{read_asset(name)[0]}/{name}"


@routes.get(PREFIX + "{digest}/{name}", response_class=Response)
async def show_asset(digest: str, name: str) -> Response:
    """A file of the dashboard."""
    known = {path.name for path in FOLDER.iterdir() if path.suffix in TYPES}
    if name not in known or read_asset(name)[0] != digest:
        raise NotFound(f"There is no {name} of this release: load the page again.")
    headers = {"Cache-Control": "public, max-age=31536000, immutable"}
    return Response(read_asset(name)[1], media_type=TYPES[Path(name).suffix], headers=headers)
