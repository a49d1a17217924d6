"""`/api/crawls`: start a crawl of a web site into a collection, follow it, list its pages, stop it."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from penstock.errors import NotFound
from penstock.knowledge import crawl
from penstock.knowledge.crawl import Crawl, CrawlPage, CrawlState, PageState
from penstock.web.dependencies import AfterNumber, Limit, Page, Reads, Storable, Why, Writes, cut
from penstock.web.middleware.errors import RESPONSES

routes = APIRouter(prefix="/api/crawls", tags=["crawls"], responses=RESPONSES)

CrawlId = Annotated[int, Path(ge=1, lt=2**63, description="The crawl's id.")]


class NewCrawl(BaseModel):
    """A crawl to start; a field that is left out follows the server's settings."""

    model_config = ConfigDict(extra="forbid")

    url: Storable = Field(max_length=8192, description="The first page.")
    collection: Storable = Field(description="The target collection.")
    depth: int | None = Field(None, ge=0, le=100, description="Links to follow from the first page on; 0: none.")
    max_pages: int | None = Field(None, ge=1, le=1_000_000, description="Pages to fetch, at most.")
    hosts: list[Storable] = Field([], max_length=50, description="Other hosts that it may fetch from.")


class StartedCrawl(BaseModel):
    """A crawl that was started; an equal request while it runs returns the same one."""

    id: int
    created: bool
    url: str
    collection: str
    state: CrawlState


@routes.post("", status_code=202)
async def begin_crawl(caller: Writes, body: NewCrawl, response: Response) -> StartedCrawl:
    """Start a crawl; its pages become documents of the collection."""
    collection = await caller.find_collection(body.collection)
    begun = await crawl.begin_crawl(
        caller.app,
        body.url,
        collection,
        depth=body.depth,
        max_pages=body.max_pages,
        hosts=body.hosts,
        by=caller.uploader(""),
    )
    caller.product.notifier.notify()
    response.headers["Location"] = f"/api/crawls/{begun.id}"
    found = await show_crawl(caller, begun.id)
    return StartedCrawl(
        id=found.id, created=begun.created, url=found.url, collection=found.collection, state=found.state
    )


@routes.get("")
async def list_crawls(
    caller: Reads,
    *,
    collection: Annotated[str | None, Query(description="Only into this collection.")] = None,
    state: CrawlState | None = None,
    after: AfterNumber = 0,
    limit: Limit = 100,
) -> Page[Crawl, int]:
    """Crawls by id."""
    seen = caller.principal.collections
    chosen = None if collection is None else await caller.find_collection(collection)
    crawls = await crawl.list_crawls(
        caller.app,
        collection=None if chosen is None else chosen.id,
        state=state,
        seen=None if seen is None else list(seen),
        after=after,
        most=limit + 1,
        tenant=caller.tenant,
    )
    return cut(crawls, limit, lambda each: each.id)


@routes.get("/{id}")
async def show_crawl(caller: Reads, id: CrawlId) -> Crawl:  # noqa: A002
    """One crawl, with its pages counted."""
    found = await crawl.show_crawl(caller.app, id, tenant=caller.tenant)
    if not caller.principal.sees(found.collection_id):
        raise NotFound(f"Crawl {id} does not exist.")
    return found


@routes.get("/{id}/pages")
async def list_crawl_pages(
    caller: Reads,
    id: CrawlId,  # noqa: A002
    *,
    state: PageState | None = None,
    after: AfterNumber = 0,
    limit: Limit = 100,
) -> Page[CrawlPage, int]:
    """Its pages in the order in which they were found: with the document that each became, or the reason why not."""
    await show_crawl(caller, id)
    pages = await crawl.list_crawl_pages(caller.app, id, state=state, after=after, most=limit + 1, tenant=caller.tenant)
    return cut(pages, limit, lambda each: each.id)


@routes.get("/{id}/why")
async def explain_crawl(caller: Reads, id: CrawlId) -> Why:  # noqa: A002
    """Explain the state of a crawl."""
    await show_crawl(caller, id)
    return caller.answer(await crawl.explain_crawl(caller.app, id, tenant=caller.tenant))


@routes.post("/{id}/stop", status_code=202)
async def stop_crawl(caller: Writes, id: CrawlId) -> Crawl:  # noqa: A002
    """Stop a crawl; its documents stay."""
    await show_crawl(caller, id)
    await crawl.stop_crawl(caller.app, id, tenant=caller.tenant)
    caller.product.notifier.notify()
    return await show_crawl(caller, id)
