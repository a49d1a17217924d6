"""`client.crawls`: web sites that are taken into collections."""

from collections.abc import AsyncIterator, Sequence

from penstock.client._async.wire import AsyncWire
from penstock.client.crawl_results import BegunCrawl, Crawl, CrawlPage
from penstock.client.decoding import decode
from penstock.client.results import Why


class AsyncCrawls:
    """Crawls by number."""

    def __init__(self, wire: AsyncWire) -> None:
        self._wire = wire

    async def begin(
        self,
        url: str,
        collection: str,
        *,
        depth: int | None = None,
        max_pages: int | None = None,
        hosts: Sequence[str] = (),
    ) -> BegunCrawl:
        """Begin a crawl; the same one again, while it runs, is that one."""
        wish = {"url": url, "collection": collection, "depth": depth, "max_pages": max_pages, "hosts": list(hosts)}
        begun = await self._wire.ask("POST", "/api/crawls", body=wish, again=True)
        return decode(BegunCrawl, begun)

    def list(self, *, collection: str | None = None, state: str | None = None, page: int = 100) -> AsyncIterator[Crawl]:
        """Crawls by number; states: running, done, failed, stopped."""
        wish = {"collection": collection, "state": state, "limit": page}
        return self._wire.pages("GET", "/api/crawls", Crawl, query=wish)

    async def show(self, id: int) -> Crawl:  # noqa: A002
        """One crawl, with its pages counted."""
        return decode(Crawl, await self._wire.ask("GET", "/api/crawls/{id}", at={"id": id}))

    def pages(self, id: int, *, state: str | None = None, page: int = 100) -> AsyncIterator[CrawlPage]:  # noqa: A002
        """Its pages in the order in which they were found; states: waiting, kept, skipped, failed."""
        wish = {"state": state, "limit": page}
        return self._wire.pages("GET", "/api/crawls/{id}/pages", CrawlPage, at={"id": id}, query=wish)

    async def why(self, id: int) -> Why:  # noqa: A002
        """Why it is where it is: one sentence, and the evidence."""
        return decode(Why, await self._wire.ask("GET", "/api/crawls/{id}/why", at={"id": id}))

    async def stop(self, id: int) -> Crawl:  # noqa: A002
        """Stop it; what it has taken stays."""
        return decode(Crawl, await self._wire.ask("POST", "/api/crawls/{id}/stop", at={"id": id}))
