"""`penstock crawls`, the API and the client: start, wait, show, stop."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from penstock.client import AsyncClient, BadValue, NotFound, WrongState
from penstock.settings import DatabaseUrl
from penstock.web import make_app
from tests.knowledge.site import Website, begin, open_website, over, visiting
from tests.processes import penstock
from tests.web.api_server import serving


@pytest.fixture
async def site() -> AsyncIterator[Website]:
    async with open_website() as opened:
        opened.put("/", "The first page tells of the weir.", "/a", "/gone")
        opened.put("/a", "The gate is of oak.")
        yield opened


@pytest.fixture
def environ(database_url: DatabaseUrl, tmp_path: Path, site: Website) -> dict[str, str]:
    return {
        "PENSTOCK_DATABASE_URL": database_url.reveal(),
        "PENSTOCK_HOME": str(tmp_path),
        "PENSTOCK_FETCH__PORTS": str(site.port),
        "PENSTOCK_FETCH__PRIVATE": "127.0.0.1",
        "PENSTOCK_CRAWL__DELAY": "1ms",
        "PENSTOCK_EXTRACTION__CHILDREN": "1",
    }


async def test_the_command_works_by_itself(environ: dict[str, str], site: Website) -> None:
    """Without a worker it does the work, until the documents are found."""
    options = ("--collection", "web", "--depth", "2", "--max-pages", "5")
    code, said = await penstock("crawls", "start", site.url(), *options, **environ)
    assert (code, "Collection web does not exist. `--create` makes it." in said) == (2, True), said
    code, said = await penstock("crawls", "start", site.url(), *options, "--create", **environ)
    assert code == 0, said
    assert "No worker is running: working here until it is done." in said
    assert "2 pages kept, 0 skipped, 1 failed" in said
    assert "answered 404" in said
    code, said = await penstock("search", "gate of oak", "--json", **environ)
    assert json.loads(said)["hits"][0]["name"] == f"127.0.0.1_{site.port}/a"
    [crawl] = json.loads((await penstock("crawls", "list", "--json", **environ))[1])["crawls"]
    assert (crawl["state"], crawl["kept"], crawl["collection"]) == ("done", 2, "web")
    sentence = f"Crawl {crawl['id']} ({site.url()}) is done: 2 pages kept, 0 skipped, 1 failed."
    for reference in (str(crawl["id"]), site.url()):
        code, said = await penstock("why", reference, **environ)
        assert (code, said.splitlines()[0]) == (0, sentence)


@pytest.mark.slow
async def test_the_command_leaves_it_to_a_worker(environ: dict[str, str], site: Website) -> None:
    code, said = await penstock("crawls", "start", "--no-wait", site.url("/gone"), **environ)
    assert code == 0, said
    assert "has started: penstock crawls show" in said
    number = said.splitlines()[-1].split()[1]
    code, said = await penstock("crawls", "show", site.url("/gone"), **environ)
    assert "is running: 0 pages kept, 0 skipped, 0 failed, 1 waiting. Its job" in said
    assert "`penstock worker` or `penstock up`" in said
    code, said = await penstock("crawls", "start", site.url("/gone"), "--json", **environ)
    answer = json.loads(said[said.index("{") :])
    assert (code, answer["state"], answer["created"], str(answer["id"])) == (1, "failed", False, number)
    assert answer["not_taken"][0]["state"] == "failed"
    code, said = await penstock("crawls", "stop", number, **environ)
    assert (code, said.strip()) == (2, f"Crawl {number} is failed: only a running crawl can be stopped.")
    code, said = await penstock("crawls", "start", "no url", **environ)
    assert (code, said.splitlines()[-1]) == (2, "The URL must begin with http:// or https://.")


async def test_the_api_and_the_client(database_url: DatabaseUrl, tmp_path: Path, site: Website) -> None:
    async with (
        visiting(database_url, tmp_path, site) as product,
        serving(make_app(product)) as port,
        AsyncClient(f"http://127.0.0.1:{port}") as client,
    ):
        begun = await client.crawls.begin(site.url("/#x"), "web", depth=1, max_pages=10)
        assert (begun.created, begun.url, begun.collection) == (True, site.url(), "web")
        await over(product, begun.id)
        shown = await client.crawls.show(begun.id)
        assert (shown.state, shown.kept, shown.failed, shown.waiting) == ("done", 2, 1, 0)
        pages = {page.url: page async for page in client.crawls.pages(begun.id, page=1)}
        assert pages.keys() == {site.url(path) for path in ("/", "/a", "/gone")}
        assert pages[site.url("/a")].document is not None
        assert [page.url async for page in client.crawls.pages(begun.id, state="failed")] == [site.url("/gone")]
        assert [each.id async for each in client.crawls.list(collection="web", state="done")] == [begun.id]
        assert "is done" in (await client.crawls.why(begun.id)).sentence
        with pytest.raises(WrongState):
            await client.crawls.stop(begun.id)
        with pytest.raises(NotFound):
            await client.crawls.begin(site.url(), "nothing")
        with pytest.raises(BadValue):
            await client.crawls.begin("ftp://example.org/", "web")
        with pytest.raises(NotFound):
            await client.crawls.show(4711)
        await product.app.pause(queue="crawl")
        waiting = await begin(product, site.url("/a"))
        assert (await client.crawls.stop(waiting)).state == "stopped"
