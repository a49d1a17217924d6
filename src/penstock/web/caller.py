"""What a route knows of who asks. Each route says by one of these types which scope it needs; one that says nothing is refused
when the application is made (app.py).

    async def show_document(caller: Reads, id: DocumentId) -> DocumentShown: …
"""

from collections.abc import Iterable, Iterator
from typing import Annotated

from fastapi import FastAPI, Request, Security
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from fastapi.security import APIKeyHeader, HTTPAuthorizationCredentials, HTTPBearer, SecurityScopes
from starlette.routing import BaseRoute

from penstock.access import Principal
from penstock.documents import Collection, list_collections
from penstock.engine import Penstock
from penstock.errors import BadValue, NotAllowed
from penstock.pipelines import Product
from penstock.web.access import PRINCIPAL, is_open

MOST_COLLECTIONS = 1000

# For the OpenAPI document; who asks is known before (access.py).
BEARER = HTTPBearer(
    scheme_name="key",
    auto_error=False,
    description="An API key: pk_…. Not needed on loopback unless api.require_key is on.",
)

SIGNATURE = APIKeyHeader(
    name="Penstock-Signature",
    scheme_name="signature",
    auto_error=False,
    description="Of the message, with the secret of its source: v1=…. The route itself checks it.",
)


class Caller:
    """Who asks, and the product that answers."""

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
        """Who a document is from: the key's name; who has no key may say it."""
        name = self.principal.name
        if name and given not in {"", name}:
            raise BadValue(f"uploaded_by is the name of the key, {name}: leave it out.")
        return name or given

    @property
    def runs_fleet(self) -> bool:
        """Whether it may know of workers and of others' jobs: those are the business of the tenant that is there first."""
        return self.tenant == "default" and self.principal.collections is None

    def needs_fleet(self) -> None:
        if not self.runs_fleet:
            raise NotAllowed("This is about everybody's work: use a key of the tenant `default` for all collections.")

    async def collections(self) -> list[Collection]:
        """Those that it may see."""
        found = await list_collections(self.app, most=MOST_COLLECTIONS, tenant=self.tenant)
        return [each for each in found if self.principal.sees(each.id)]

    def needs_all_collections(self, what: str) -> None:
        if self.principal.collections is not None:
            raise NotAllowed(f"This key is for some collections alone, and cannot {what}.")


async def _caller(
    request: Request, needed: SecurityScopes, _: Annotated[HTTPAuthorizationCredentials | None, Security(BEARER)]
) -> Caller:
    principal: Principal = request.scope[PRINCIPAL]
    for scope in needed.scopes:
        if not principal.may(scope):
            allowed = ", ".join(sorted(principal.scopes))
            raise NotAllowed(f"This needs a key with the scope {scope}; this one has {allowed}.")
    return Caller(request.app.state.product, principal)


Reads = Annotated[Caller, Security(_caller, scopes=["read"])]
Writes = Annotated[Caller, Security(_caller, scopes=["write"])]
Admins = Annotated[Caller, Security(_caller, scopes=["admin"])]
Signature = Annotated[str | None, Security(SIGNATURE)]  # instead of a key


def check_declared(app: FastAPI) -> None:
    """A route that does not say who may use it must not be served, nor one that cannot say it."""
    for route in _routes(app.routes):
        path = getattr(route, "path", type(route).__name__)
        declared = is_open(path) or path == app.openapi_url
        if not declared and not (isinstance(route, APIRoute) and _declares(route.dependant)):
            raise TypeError(f"{path} does not say which scope it needs: give it Reads, Writes, Admins or Signature.")


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
