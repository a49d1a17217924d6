"""A document by its address: the body of the `PUT` is not the file, but says where it is.

    PUT /api/collections/mill/documents/flood.pdf
    Content-Type: application/vnd.penstock.link+json

    {"url": "https://example.org/flood.pdf"}

A media type of its own, because a document may be JSON, too.
"""

import json

from fastapi import Request

from penstock.errors import BadValue
from penstock.web.bodies import pieces

MEDIA_TYPE = "application/vnd.penstock.link+json"
LONGEST = 10_000  # bytes


def is_link(request: Request) -> bool:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower() == MEDIA_TYPE


async def read_link(request: Request) -> str:
    body = b"".join([piece async for piece in pieces(request, LONGEST)])
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or found.keys() != {"url"} or not isinstance(found["url"], str):
        raise BadValue('The body is no link: write {"url": "https://example.org/file.pdf"}.')
    return found["url"]
