"""What many routes take: a document's number, a collection's name, JSON inside of a parameter.

A key that is for some collections sees no others: a number or name in the path that leads elsewhere leads to nothing.
"""

import json
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import Depends, Path, Request
from pydantic import AfterValidator

from penstock.access import Principal
from penstock.documents import find_collection, show_document
from penstock.documents.metadata import encode_metadata
from penstock.documents.packets import WaitingPacket, find_waiting
from penstock.errors import BadValue, NotFound
from penstock.pipelines import Product
from penstock.web.access import PRINCIPAL


async def _document(
    request: Request,
    id: Annotated[int, Path(ge=1, lt=2**63, description="The document's number.")],  # noqa: A002
) -> int:
    principal: Principal = request.scope[PRINCIPAL]
    if principal.collections is not None:
        product: Product = request.app.state.product
        found = await show_document(product.app, id, tenant=principal.tenant)
        if not principal.sees(found.collection_id):
            raise NotFound(f"There is no document {id}.")
    return id


async def _collection(request: Request, collection: Annotated[str, Path(description="The collection's name.")]) -> str:
    principal: Principal = request.scope[PRINCIPAL]
    if principal.collections is not None:
        product: Product = request.app.state.product
        found = await find_collection(product.app, collection, tenant=principal.tenant)
        if not principal.sees(found.id):
            raise NotFound(f"There is no collection {collection}: see the list for those that there are.")
    return collection


async def _packet(
    request: Request,
    id: Annotated[int, Path(ge=1, lt=2**63, description="The packet's number.")],  # noqa: A002
) -> int | WaitingPacket:
    """The number of a packet, or what is known of one that is still a message."""
    principal: Principal = request.scope[PRINCIPAL]
    product: Product = request.app.state.product
    pool = product.app.database.pool
    waiting = await pool.repeat(lambda session: find_waiting(session, id, tenant=principal.tenant))
    if waiting is None:
        return await _document(request, id)
    if principal.collections is not None:
        found = await find_collection(product.app, waiting.collection, tenant=principal.tenant)
        if not principal.sees(found.id):
            raise NotFound(f"There is no packet {id}.")
    return waiting


DocumentId = Annotated[int, Depends(_document)]
PacketId = Annotated[int | WaitingPacket, Depends(_packet)]
CollectionName = Annotated[str, Depends(_collection)]


def decode_metadata(text: str | None, where: str) -> dict[str, Any]:
    """A JSON object that came as text; none is an empty one."""
    if text is None:
        return {}
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise BadValue(f'{where} is not JSON ({error}): send an object such as {{"project": "mill"}}.') from None
    if not isinstance(value, dict):
        raise BadValue(f'{where} is no JSON object: send one such as {{"project": "mill"}}.')
    encode_metadata(value)  # what cannot be kept cannot be looked for either
    return value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def storable(text: str) -> str:
    """For text that goes to the database as it is, which takes neither NUL nor halves of characters."""
    if "\0" in text or text.encode("utf-8", "replace").decode() != text:
        raise ValueError("it has a NUL or half of a character in it, which cannot be kept")
    return text


Storable = Annotated[str, AfterValidator(storable)]


def in_utc(value: datetime | None) -> datetime | None:
    """A time without a zone is UTC, as all times here are."""
    if value is None:
        return None
    try:
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).astimezone(UTC)
    except OverflowError:  # in UTC it is before the first year, or after the last
        raise BadValue(f"There is no {value} in UTC: use a later or earlier time.") from None
