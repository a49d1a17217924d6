"""`/api/crawls`: take a web site into a collection, see how far it is and what was not taken, stop it."""

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from penstock.documents import find_collection
from penstock.errors import NotFound
from penstock.knowledge import crawl as knowledge
from penstock.knowledge.explain import explain_crawl as explain_one
from penstock.web.caller import Caller, Reads, Writes
from penstock.web.documents import Why
from penstock.web.paging import AfterNumber, Limit, Page, cut
from penstock.web.parameters import Storable
from penstock.web.problems import RESPONSES

routes = APIRouter(prefix="/api/crawls", tags=["crawls"], responses=RESPONSES)

CrawlState = Literal["running", "done", "failed", "stopped"]
PageState = Literal["waiting", "kept", "skipped", "failed"]
CrawlId = Annotated[int, Path(ge=1, lt=2**63, description="The crawl's number.")]


class CrawlWish(BaseModel):
    """A crawl to begin; what is left out is as the settings say."""

    model_config = ConfigDict(extra="forbid")

    url: Storable = Field(max_length=8192, description="The first page.")
    collection: Storable = Field(description="Where to.")
    depth: int | None = Field(None, ge=0, le=100, description="How many links it goes from the first page; 0: none.")
    max_pages: int | None = Field(None, ge=1, le=1_000_000, description="How many pages it asks for, at most.")
    hosts: list[Storable] = Field([], max_length=50, description="Other hosts that belong to it.")


class CrawlBegun(BaseModel):
    """A crawl that was begun; the same one again, while it runs, is that one."""

    id: int
    created: bool
    url: str
    collection: str
    state: CrawlState


class CrawlShown(BaseModel):
    """A crawl, and how far it is."""

    model_config = ConfigDict(from_attributes=True)

    id: int
    collection: str
    url: str
    hosts: list[str]
    depth: int
    max_pages: int
    state: CrawlState
    error: dict[str, Any] | None = Field(description="Why it failed, or was stopped.")
    begun_by: str
    waiting: int = Field(description="Pages that are known and not asked for yet.")
    kept: int = Field(description="Pages that are documents.")
    skipped: int = Field(description="Pages that are not taken, for a reason that is no fault.")
    failed: int = Field(description="Pages that could not be had.")
    left_out: int = Field(description="Links for which there was no room in max_pages.")
    unprepared: int = Field(description="Documents of it that are not searchable yet.")
    created_at: datetime
    ended_at: datetime | None


class CrawlPageShown(BaseModel):
    """A page of a crawl, and what became of it."""

    model_config = ConfigDict(from_attributes=True)

    id: int
    url: str
    depth: int
    state: PageState
    reason: str
    document: int | None
    left_out: int
    changed_at: datetime


@routes.post("", status_code=202)
async def begin_crawl(caller: Writes, wish: CrawlWish, response: Response) -> CrawlBegun:
    """Begin a crawl; its pages become documents of the collection."""
    collection = await find_collection(caller.app, wish.collection, tenant=caller.tenant)
    if not caller.principal.sees(collection.id):
        raise NotFound(f"There is no collection {collection.name}: see the list for those that there are.")
    begun = await knowledge.begin_crawl(
        caller.app,
        wish.url,
        collection,
        depth=wish.depth,
        max_pages=wish.max_pages,
        hosts=wish.hosts,
        by=caller.uploader(""),
    )
    caller.product.announcer.tell()
    response.headers["Location"] = f"/api/crawls/{begun.id}"
    found = await _find(caller, begun.id)
    return CrawlBegun(id=found.id, created=begun.created, url=found.url, collection=found.collection, state=found.state)


@routes.get("")
async def list_crawls(
    caller: Reads,
    *,
    collection: Annotated[str | None, Query(description="Only into this collection.")] = None,
    state: CrawlState | None = None,
    after: AfterNumber = 0,
    limit: Limit = 100,
) -> Page[CrawlShown, int]:
    """Crawls by number."""
    seen = caller.principal.collections
    chosen = None
    if collection is not None:
        found = await find_collection(caller.app, collection, tenant=caller.tenant)
        if not caller.principal.sees(found.id):
            raise NotFound(f"There is no collection {found.name}: see the list for those that there are.")
        chosen = found.id
    crawls = await knowledge.list_crawls(
        caller.app,
        collection=chosen,
        state=state,
        seen=None if seen is None else list(seen),
        after=after,
        most=limit + 1,
        tenant=caller.tenant,
    )
    return cut([CrawlShown.model_validate(each) for each in crawls], limit, lambda each: each.id)


@routes.get("/{id}")
async def show_crawl(caller: Reads, id: CrawlId) -> CrawlShown:  # noqa: A002
    """One crawl, with its pages counted."""
    return await _find(caller, id)


@routes.get("/{id}/pages")
async def list_crawl_pages(
    caller: Reads,
    id: CrawlId,  # noqa: A002
    *,
    state: PageState | None = None,
    after: AfterNumber = 0,
    limit: Limit = 100,
) -> Page[CrawlPageShown, int]:
    """Its pages in the order in which they were found: which document each became, or why none."""
    await _find(caller, id)
    pages = await knowledge.list_crawl_pages(
        caller.app, id, state=state, after=after, most=limit + 1, tenant=caller.tenant
    )
    return cut([CrawlPageShown.model_validate(each) for each in pages], limit, lambda each: each.id)


@routes.get("/{id}/why")
async def explain_crawl(caller: Reads, id: CrawlId) -> Why:  # noqa: A002
    """Why a crawl is where it is."""
    await _find(caller, id)
    told = await explain_one(caller.app, id, tenant=caller.tenant)
    if not caller.runs_fleet:
        told.evidence.pop("job", None)  # it names workers and what they do for others
    return Why.model_validate(told)


@routes.post("/{id}/stop", status_code=202)
async def stop_crawl(caller: Writes, id: CrawlId) -> CrawlShown:  # noqa: A002
    """Stop a crawl; what it has taken stays."""
    await _find(caller, id)
    await knowledge.stop_crawl(caller.app, id, tenant=caller.tenant)
    caller.product.announcer.tell()
    return await _find(caller, id)


async def _find(caller: Caller, number: int) -> CrawlShown:
    found = await knowledge.show_crawl(caller.app, number, tenant=caller.tenant)
    if not caller.principal.sees(found.collection_id):
        raise NotFound(f"There is no crawl {number}.")
    return CrawlShown.model_validate(found)
