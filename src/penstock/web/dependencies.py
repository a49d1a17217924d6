"""The authenticated caller, pages of lists, and common parameters, as FastAPI dependencies.

    async def list_documents(caller: Reads, after: AfterNumber = 0, limit: Limit = 100) -> Page[Document, int]: …

Each route declares the scope that it needs by the type of its caller; a route without one is refused when the application is
made (app.py). Lists are paged by keyset: a page begins after the last key of the page before, however many rows there are or
are added.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Annotated, Any, Generic, TypeVar

from fastapi import Depends, FastAPI, Path, Query, Request, Security
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from fastapi.security import APIKeyHeader, HTTPAuthorizationCredentials, HTTPBearer, SecurityScopes
from pydantic import AfterValidator, BaseModel, Field, ValidationError
from starlette.routing import BaseRoute

from penstock.access import Principal
from penstock.documents import (
    Collection,
    WaitingPacket,
    count_documents,
    encode_metadata,
    find_collection,
    find_waiting,
    list_collections,
    no_such_collection,
    show_document,
)
from penstock.engine import Penstock
from penstock.engine.inspect import Explanation
from penstock.errors import BadValue, NotAllowed, NotFound
from penstock.product import Product
from penstock.text import is_storable
from penstock.web.middleware.auth import PRINCIPAL, is_open
from penstock.web.middleware.request_body import check_head, pieces

T = TypeVar("T")
K = TypeVar("K")
Model = TypeVar("Model", bound=BaseModel)

MOST_COLLECTIONS = 1000  # that one answer lists

# For the OpenAPI document: the principal is found before any route (middleware/auth.py).
BEARER = HTTPBearer(
    scheme_name="key",
    auto_error=False,
    description="An API key: pk_…. Not needed on loopback unless api.require_key is on.",
)

SIGNATURE = APIKeyHeader(
    name="Penstock-Signature",
    scheme_name="signature",
    auto_error=False,
    description="The signature of the message with the secret of its source: v1=…. The route itself checks it.",
)


class Why(BaseModel):
    """The explanation of a state."""

    sentence: str
    state: str
    because: str
    evidence: dict[str, Any]


class Caller:
    """The principal of a request, and the product that answers it."""

    def __init__(self, product: Product, principal: Principal) -> None:
        self.product = product
        self.principal = principal

    @property
    def app(self) -> Penstock:
        return self.product.app

    @property
    def tenant(self) -> str:
        return self.principal.tenant

    def uploader(self, given: str) -> str:
        """The name to keep with a document: that of the key, or without a key the given one."""
        name = self.principal.name
        if name and given not in {"", name}:
            raise BadValue(f"uploaded_by is the name of the key, {name}: leave it out.")
        return name or given

    @property
    def runs_fleet(self) -> bool:
        """Whether it is an operator, which may see workers and the jobs of all tenants."""
        return self.tenant == "default" and self.principal.collections is None

    def needs_fleet(self) -> None:
        if not self.runs_fleet:
            raise NotAllowed("This concerns all tenants: use an operator key (tenant `default`, all collections).")

    async def find_collection(self, name: str) -> Collection:
        """The collection of this name; NotFound also for one that the key does not see."""
        found = await find_collection(self.app, name, tenant=self.tenant)
        if not self.principal.sees(found.id):
            raise no_such_collection(name)
        return found

    async def collections(self) -> list[Collection]:
        """The collections that it may see."""
        found = await list_collections(self.app, most=MOST_COLLECTIONS, tenant=self.tenant)
        return [each for each in found if self.principal.sees(each.id)]

    async def count_documents(self) -> dict[str, int]:
        """The documents of the collections that it may see, by status."""
        seen = None if self.principal.collections is None else [each.id for each in await self.collections()]
        return await count_documents(self.app, among=seen, tenant=self.tenant)

    def answer(self, explanation: Explanation) -> Why:
        """An explanation; operators also get the evidence of its job, which names workers and other tenants' work."""
        shown = Why(**explanation.answer())
        if not self.runs_fleet:
            shown.evidence = {key: value for key, value in shown.evidence.items() if key != "job"}
        return shown

    def needs_scope(self, scope: str) -> None:
        if not self.principal.may(scope):
            allowed = ", ".join(sorted(self.principal.scopes))
            raise NotAllowed(f"This needs a key with the scope {scope}; this one has {allowed}.")

    def needs_all_collections(self, what: str) -> None:
        if self.principal.collections is not None:
            raise NotAllowed(f"This key is limited to some collections and cannot {what}: use one for all collections.")


async def _caller(
    request: Request, needed: SecurityScopes, _: Annotated[HTTPAuthorizationCredentials | None, Security(BEARER)]
) -> Caller:
    caller = _caller_of(request)
    for scope in needed.scopes:
        caller.needs_scope(scope)
    return caller


def _caller_of(request: Request) -> Caller:
    return Caller(request.app.state.product, request.scope[PRINCIPAL])


Reads = Annotated[Caller, Security(_caller, scopes=["read"])]
Writes = Annotated[Caller, Security(_caller, scopes=["write"])]
Admins = Annotated[Caller, Security(_caller, scopes=["admin"])]
Signature = Annotated[str | None, Security(SIGNATURE)]  # instead of a key


def check_declared(app: FastAPI) -> None:
    """Refuse an application with a route that does not declare the scope it needs."""
    for route in _routes(app.routes):
        path = getattr(route, "path", type(route).__name__)
        declared = is_open(path) or path == app.openapi_url
        if not declared and not (isinstance(route, APIRoute) and _declares(route.dependant)):
            raise TypeError(
                f"{path} does not declare the scope that it needs: give it Reads, Writes, Admins or Signature."
            )


def _routes(routes: Iterable[BaseRoute]) -> Iterator[BaseRoute]:
    """In newer FastAPI, a router that is included stays one, and its routes are not among the application's."""
    for route in routes:
        inner = getattr(route, "original_router", None)
        if inner is None:
            yield route
        else:
            yield from _routes(inner.routes)


def _declares(dependant: Dependant) -> bool:
    return any(each.call is _caller or each.call is SIGNATURE for each in dependant.dependencies)


# -- unknown parameters ----------------------------------------------------------------------------------------------


async def refuse_unknown_parameters(request: Request) -> None:
    """Refuse a query parameter that the route does not have: a filter with a typing error would match everything."""
    path, route = request.url.path, request.scope.get("route")
    if not path.startswith("/api/") or not isinstance(route, APIRoute):
        return
    known = sorted(_parameters(route.dependant))
    for name in request.query_params:
        if name not in known:
            raise BadValue(f"Unknown parameter `{name}`: {_suggest(name, known)}")


def _suggest(name: str, known: list[str]) -> str:
    near = get_close_matches(name, known, n=1)
    if near:
        return f"did you mean `{near[0]}`?"
    if not known:
        return "this route has none."
    return f"this route has {', '.join(f'`{each}`' for each in known)}."


def _parameters(dependant: Dependant) -> set[str]:
    own = {field.alias for field in dependant.query_params}
    return own.union(*(_parameters(each) for each in dependant.dependencies))


# -- pages of lists -------------------------------------------------------------------------------------------------


Limit = Annotated[int, Query(ge=1, le=1000, description="Items of the page, at most.")]
AfterNumber = Annotated[int, Query(ge=-1, lt=2**63, description="The `next` of the page before.")]


class Page(BaseModel, Generic[T, K]):
    """A part of a list."""

    items: list[T]
    next: K | None = Field(description="Give it as `after` for the next page; null at the end.")


def cut(found: list[T], limit: int, key: Callable[[T], K]) -> Page[T, K]:
    """A page of up to `limit` out of one row more than that, which shows whether there is a next page."""
    items = found[:limit]
    return Page(items=items, next=key(items[-1]) if len(found) > limit else None)


# -- parameters -----------------------------------------------------------------------------------------------------


async def _document(
    request: Request,
    id: Annotated[int, Path(ge=1, lt=2**63, description="The document's id.")],  # noqa: A002
) -> int:
    caller = _caller_of(request)
    if caller.principal.collections is not None:
        found = await show_document(caller.app, id, tenant=caller.tenant)
        if not caller.principal.sees(found.collection_id):
            raise NotFound(f"Document {id} does not exist.")
    return id


async def _collection(request: Request, collection: Annotated[str, Path(description="The collection's name.")]) -> str:
    caller = _caller_of(request)
    if caller.principal.collections is not None:
        await caller.find_collection(collection)
    return collection


async def _packet(
    request: Request,
    id: Annotated[int, Path(ge=1, lt=2**63, description="The packet's id.")],  # noqa: A002
) -> int | WaitingPacket:
    """The id of a packet, or the message that will become one."""
    caller = _caller_of(request)
    pool = caller.app.database.pool
    waiting = await pool.repeat(find_waiting, id, tenant=caller.tenant)
    if waiting is None:
        return await _document(request, id)
    if caller.principal.collections is not None:
        found = await find_collection(caller.app, waiting.collection, tenant=caller.tenant)
        if not caller.principal.sees(found.id):
            raise NotFound(f"Packet {id} does not exist.")
    return waiting


RemoveNow = Annotated[
    bool, Query(description="Remove it at once, without a chance to restore it; needs the admin scope.")
]
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
        raise BadValue(f'{where} is not a JSON object: send one such as {{"project": "mill"}}.')
    encode_metadata(value)  # or it could neither be stored nor searched
    return value


async def read_model(request: Request, kind: type[Model], most: int, what: str) -> Model:
    """The JSON body of a request that may be larger than FastAPI is allowed to read."""
    check_head(request, most)
    body = b"".join([piece async for piece in pieces(request, most)])
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the body"
        raise BadValue(f"{what} cannot be used: {where}: {first['msg']}.") from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _check_storable(text: str) -> str:
    """For text that goes to the database as it is, which takes neither NUL nor halves of characters."""
    if not is_storable(text):
        raise ValueError("it contains a NUL or half of a character, which cannot be stored")
    return text


Storable = Annotated[str, AfterValidator(_check_storable)]


def in_utc(value: datetime | None) -> datetime | None:
    """A time without a zone is UTC, as all times here are."""
    if value is None:
        return None
    try:
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).astimezone(UTC)
    except OverflowError:  # in UTC it is before the first year, or after the last
        raise BadValue(f"The time {value} does not exist in UTC: use a later or earlier one.") from None
