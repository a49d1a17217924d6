"""The dashboard without a browser: every page renders, whatever is in it, and only for viewers that may see it."""

import re
from collections.abc import AsyncIterator
from urllib.parse import urljoin, urlsplit

import aiohttp
import pytest
from fastapi.routing import APIRoute
from yarl import URL

from penstock.engine.inspect import queries
from penstock.product import Product
from penstock.web.pages import ROUTERS
from tests.web.conftest import Api
from tests.web.page_reader import HTML, Seen, check, get, send
from tests.web.two_tenants import CANARY, SETTING_OVERRIDES, TwoTenants, fill, staged

EVIL = "<img src=x onerror=alert(1)>\"'&amp;"
PAGES = (
    "/",
    "/documents",
    "/documents?sort=size",
    "/search",
    "/search?q=weir",
    "/packets",
    "/inbox",
    "/jobs",
    "/jobs/finished",
    "/schedules",
    "/fleet",
    "/docs",
)
OF_THE_FLEET = {"/jobs", "/jobs/finished", "/schedules", "/fleet"}


# -- what is shown ------------------------------------------------------------------------------------------------------


async def test_pages_of_an_empty_penstock(api: Api) -> None:
    for path in PAGES:
        seen = check(await get(api, path))
        assert "Penstock" in seen.text, path
    assert "No document yet" in check(await get(api, "/documents")).text
    assert "No worker is running" in check(await get(api, "/")).text


async def test_pages_of_documents_whose_names_are_html(api: Api) -> None:
    await api.make("mill")
    name = "%3Cimg%20src=x%20onerror=alert(1)%3E%22%27&amp;.md"
    text = f"# {EVIL}\n\nThe weir. {EVIL}\n"
    metadata = {"X-Penstock-Metadata": '{"<script>alert(1)</script>": "<script>alert(2)</script>"}'}
    async with api.working():
        ready = (await api.put(name, text.encode(), headers=metadata)).json["id"]
        broken = (await api.put("%3Cb%3E.pdf", b"%PDF-1.7 <script>alert(3)</script>")).json["id"]
        assert (await api.over(ready))["status"] == "ready"
        assert (await api.over(broken))["status"] == "failed"
    paths = [
        "/",
        "/documents",
        "/documents?name=onerror",
        "/documents?status=failed&collection=mill",
        "/documents?type=text&since=2020-01-01&until=2090-01-01",
        "/search?q=weir",
        "/search?q=%3Cscript%3Ealert(4)%3C/script%3E",
        "/documents?name=%3Cscript%3E",
        *(f"/documents/{number}" for number in (ready, broken)),
        *(f"/documents/{ready}?view={view}" for view in ("chunks", "history", "versions")),
    ]
    for path in paths:
        seen = check(await get(api, path))
        drawn = [given for tag, given in seen.tags if tag == "img" and not given.keys() & {"data-sheet", "data-thumb"}]
        assert not drawn, f"{path}: {drawn}"
    seen = check(await get(api, f"/documents/{ready}"))
    assert f"The weir. {EVIL}" in seen.text
    assert "<script>alert(2)</script>" in seen.text
    assert [given for tag, given in check(await get(api, "/search?q=weir")).tags if tag == "mark"]
    job = (await api.get(f"/api/documents/{broken}")).json["job"]
    assert "Traceback" in check(await get(api, f"/jobs/{job}")).text
    message = (await api.get(f"/api/documents/{broken}")).json["error"]["message"]
    assert message in check(await get(api, "/")).text


async def test_links_on_pages_lead_somewhere(api: Api) -> None:
    """From the overview on, as far as links go."""
    await api.make("mill")
    form = aiohttp.FormData(default_to_multipart=True)
    form.add_field("file", b"The first page.", filename="a.txt")
    async with api.working():
        ready = (await api.put("a%20b/c%23d.md", b"# Weir\n\nThe weir holds.\n")).json["id"]
        packet = (await api.ask("POST", "/api/packets?collection=mill&name=p", data=form)).json["id"]
        for number in (ready, packet):
            assert (await api.over(number))["status"] == "ready"
        seen: set[str] = set()
        waiting = ["/", "/search?q=weir", f"/packets/{packet}"]
        while waiting:
            path = waiting.pop()
            answer = await get(api, path)
            assert answer.status == 200, f"{path}: {answer.status} {answer.body[:300]!r}"
            if "html" not in answer.headers["Content-Type"]:
                continue
            for link in check(answer).links:
                address = urlsplit(urljoin(f"http://here{path}", link))
                assert address.netloc == "here", f"{link} on {path} leads to another site"
                found = address.path + (f"?{address.query}" if address.query else "")
                if found not in seen:
                    seen.add(found)
                    waiting.append(found)
    assert len(seen) > 40


async def test_a_static_file_is_kept_for_ever(api: Api) -> None:
    [sheet] = [link for link in check(await get(api, "/")).links if link.endswith(".css")]
    answer = await api.get(sheet)
    assert (answer.status, answer.headers["Cache-Control"]) == (200, "public, max-age=31536000, immutable")
    assert (await api.get(re.sub("/[0-9a-f]{12}/", "/000000000000/", sheet))).status == 404
    assert (await api.get("/static/000000000000/..%2Flook.py")).status == 404


# -- what is done, without scripts --------------------------------------------------------------------------------------


@pytest.mark.parametrize("setting_overrides", [{"documents__restore_within": "1h"}])
async def test_forms_without_scripts(api: Api) -> None:
    made = await send(api, "/collections", name="mill")
    assert (made.status, made.headers["Location"]) == (303, "/documents?collection=mill&did=created")
    form = aiohttp.FormData(default_to_multipart=True)
    form.add_field("collection", "mill")
    form.add_field("file", b"%PDF-1.7 broken", filename="a.pdf")
    form.add_field("file", b"hello", filename="b.txt")
    sent = await api.ask("POST", "/documents/upload", data=form, headers=HTML, allow_redirects=False)
    assert sent.status == 303, sent.body
    async with api.working():
        broken, good = (each["id"] for each in (await api.get("/api/documents")).json["items"])
        assert (await api.over(broken))["status"] == "failed"
        assert (await api.over(good))["status"] == "ready"

    assert (await send(api, f"/documents/{broken}/retry")).headers["Location"] == f"/documents/{broken}?did=retried"
    assert (await api.get(f"/api/documents/{broken}")).json["status"] == "processing"
    await send(api, f"/documents/{broken}/cancel")
    assert (await api.get(f"/api/documents/{broken}")).json["status"] == "failed"

    question = check(await send(api, f"/documents/{good}/delete"))
    assert (await api.get(f"/api/documents/{good}")).json["status"] == "ready", "it has only asked"
    [(address, fields)] = [form for form in question.forms if form[1].get("confirmed")]
    assert (await send(api, address, **fields)).status == 303
    assert (await api.get(f"/api/documents/{good}")).json["status"] == "deleted"
    await send(api, f"/documents/{good}/restore")
    assert (await api.get(f"/api/documents/{good}")).json["status"] == "ready"

    nothing = await send(api, "/documents/bulk", action="retry", ids=str(good))
    assert nothing.headers["Location"] == "/documents?did=nothing"
    other = aiohttp.FormData(default_to_multipart=True)
    other.add_field("file", b"hello again", filename="anything.txt")
    await api.ask("POST", f"/documents/{good}/replace", data=other, headers=HTML, allow_redirects=False)
    assert (await api.get(f"/api/documents/{good}")).json["version"] == 2


async def test_the_queue_by_forms(api: Api) -> None:
    await api.make("mill")
    async with api.working():
        broken = (await api.put("a.pdf", b"%PDF-1.7 broken")).json["id"]
        job = (await api.over(broken))["job"]
    [cause] = (await api.get("/api/dead")).json
    held = {"what": "kind", "name": "prepare_document"}
    await send(api, "/jobs/pause", **held, reason="a test")
    page = check(await get(api, "/jobs"))
    assert "a test" in page.text
    assert ("/jobs/resume", held) in page.forms
    redriven = await send(api, "/jobs/redrive", fingerprint=cause["fingerprint"], force="true")
    number = (await api.get("/api/dead")).json[0]["redrive"]
    assert redriven.headers["Location"] == f"/jobs/{number}?did=redriven"
    assert "Retry started" in check(await get(api, redriven.headers["Location"])).text
    assert f"Job {number} retries them" in check(await get(api, "/jobs")).text
    nothing = await send(api, "/jobs/redrive", fingerprint="0123456789ab")
    assert nothing.headers["Location"] == "/jobs?did=nothing"
    await send(api, f"/jobs/{number}/cancel")
    await send(api, f"/jobs/{job}/cancel")
    assert "cancelled" in check(await get(api, f"/jobs/{job}")).text
    await send(api, "/jobs/resume", **held)
    assert (await api.get("/api/pauses")).json == []


async def test_jobs_are_looked_through_in_portions(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "WINDOW", 2)
    await api.make("mill")
    for number in range(3):
        await api.put(f"{number}.txt")
    page = check(await get(api, "/jobs?kind=nothing"))
    assert "None among the jobs that were read" in page.text
    first = (await api.get("/api/jobs?kind=nothing")).json
    assert first["items"] == []
    assert (await api.get(f"/api/jobs?kind=nothing&after={first['next']}")).json == {"items": [], "next": None}
    assert "No live job" in check(await get(api, f"/jobs?kind=nothing&after={first['next']}")).text


async def test_text_that_cannot_be_kept(api: Api) -> None:
    for path, fields in (
        ("/jobs/pause", {"what": "kind", "name": "a\0b"}),
        ("/jobs/pause", {"what": "kind", "name": ""}),
        ("/jobs/resume", {"what": "mood", "name": "a"}),
        ("/jobs/redrive", {"fingerprint": "\0"}),
        ("/jobs/discard", {"fingerprint": "x", "reason": ""}),
        ("/schedules/run", {"name": "\0", "fairness_key": "x"}),
        ("/collections", {"name": "\0"}),
        ("/documents/bulk", {"action": "explode", "ids": "1"}),
        ("/documents/bulk", {"action": "retry", "ids": "one"}),
    ):
        answer = await send(api, path, **fields)
        assert answer.status == 422, f"{path} {fields}: {answer.status} {answer.body!r}"
        assert "text/html" in answer.headers["Content-Type"]
    for body in ({"what": "kind", "name": "\0"}, {"what": "kind", "name": "a", "reason": "\ud800"}):
        assert (await api.ask("POST", "/api/pauses", json=body)).status == 422
    for path in ("/api/dead/a%00b", "/api/jobs?kind=%00", "/jobs?kind=%00"):
        assert (await api.get(path)).status == 422, path


async def test_pages_of_other_sites_cannot_send_forms(api: Api) -> None:
    await api.make("mill")
    for headers in ({"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
        answer = await api.ask("POST", "/collections", data={"name": "theirs"}, headers=HTML | headers)
        assert answer.status == 403, headers
        assert "another site" in Seen(answer).text
    assert [each["name"] for each in (await api.get("/api/collections")).json["items"]] == ["mill"]


async def test_a_problem_is_a_page_for_browsers(api: Api) -> None:
    for path, status in (("/nothing", 404), ("/documents/999", 404), ("/documents?since=soon", 422), ("/jobs/0", 404)):
        answer = await get(api, path)
        assert answer.status == status, path
        assert "text/html" in answer.headers["Content-Type"]
        assert (await api.get(path)).headers["Content-Type"] == "application/problem+json"
    assert "Document 999 does not exist" in Seen(await get(api, "/documents/999")).text


async def test_an_address_cannot_put_words_into_a_page(api: Api) -> None:
    assert "evil" not in check(await get(api, "/documents?did=evil+words")).text


# -- who may see it -----------------------------------------------------------------------------------------------------


@pytest.fixture
async def two_tenants(product: Product) -> AsyncIterator[TwoTenants]:
    async with staged(product) as made:
        yield made


def walked(two_tenants: TwoTenants) -> list[tuple[str, str]]:
    """Every route of the pages, asked for something of `mill`."""
    found = []
    for router in ROUTERS:
        for route in router.routes:
            assert isinstance(route, APIRoute)
            path = re.sub(r"\{id\}", str(two_tenants.letter), route.path)
            for name, value in (("job", two_tenants.job), ("message", two_tenants.message), ("action", "retry")):
                path = path.replace(f"{{{name}}}", str(value))
            path = path.replace("/schedules/retry", "/schedules/run").replace(
                f"/packets/{two_tenants.letter}", f"/packets/{two_tenants.packet}"
            )
            found += [(method, path) for method in route.methods or ()]
    return [(method, path) for method, path in found if "{" not in path and not path.startswith("/sign-")]


@pytest.mark.parametrize("setting_overrides", [dict(SETTING_OVERRIDES)])
async def test_nobody_sees_anothers_pages(two_tenants: TwoTenants) -> None:
    await fill(two_tenants)
    routes = walked(two_tenants)
    assert len(routes) > 20
    for method, path in routes:
        where = f"{method} {path}"
        refused = await two_tenants.ask(None, method, path, headers=HTML, allow_redirects=False)
        if method == "GET":
            assert (refused.status, refused.headers["Location"][:8]) == (303, "/sign-in"), where
        else:
            assert refused.status == 401, where
        for key in ("rival", "rival porch", "mill porch"):
            answer = await two_tenants.ask(key, method, path, headers=HTML, allow_redirects=False)
            assert answer.status != 500, where
            assert not two_tenants.leaks(answer), f"{where} as {key}: {two_tenants.leaks(answer)}"
            if path.partition("?")[0] in OF_THE_FLEET:
                assert answer.status == 403, where
    for path in (f"/search?q={CANARY}", f"/documents?name={CANARY[:5]}", "/documents?status=deleted", "/?x=1"):
        answer = await two_tenants.ask("rival", "GET", path, headers=HTML)
        assert two_tenants.leaks(answer) in ([], [CANARY]) and answer.body.decode().count(CANARY) <= 2, (
            path
        )  # the question itself
    owned = await two_tenants.ask("owner", "GET", f"/documents/{two_tenants.letter}", headers=HTML)
    assert CANARY in check(owned).text
    reads = check(await two_tenants.ask("mill reads", "GET", f"/documents/{two_tenants.letter}", headers=HTML))
    assert not [action for action, _ in reads.forms if action.endswith("/delete")]
    broken = check(await two_tenants.ask("owner", "GET", f"/documents/{two_tenants.broken}", headers=HTML))
    assert "Traceback" not in broken.text, "a traceback is for operators"


@pytest.mark.parametrize("setting_overrides", [dict(SETTING_OVERRIDES)])
async def test_the_overview_has_the_buttons_that_its_viewer_may_use(two_tenants: TwoTenants) -> None:
    await fill(two_tenants)
    await two_tenants.make_key("fleet reads", scopes=["read"])
    await two_tenants.make_key("editor", tenant="mill", scopes=["read", "write"])

    async def overview(key: str) -> Seen:
        return check(await two_tenants.ask(key, "GET", "/", headers=HTML))

    async def act(key: str, path: str, **fields: str) -> int:
        sent = await two_tenants.ask(key, "POST", path, data=fields, headers=HTML, allow_redirects=False)
        return sent.status

    def actions(page: Seen) -> set[str]:
        return {address for address, _ in page.forms}

    dismiss = f"/documents/{two_tenants.broken}/dismiss"
    for key, listed, writes in (
        ("mill reads", True, False),
        ("editor", True, True),
        ("mill porch", False, False),
        ("rival", False, False),
        ("fleet", False, False),
    ):
        page = await overview(key)
        assert (f"/documents/{two_tenants.broken}" in page.links, dismiss in actions(page)) == (listed, writes), key
        assert ("Documents that could not be read" in page.text) is listed, key
        assert (f"/documents/{two_tenants.broken}#replace" in page.links) is writes, key
    assert await act("mill reads", dismiss, came_from="/") == 403
    assert await act("editor", dismiss, came_from="/") == 303
    assert dismiss not in actions(await overview("editor"))
    history = await two_tenants.ask("owner", "GET", f"/api/documents/{two_tenants.broken}/history")
    assert "editor" in history.body.decode(), "the history keeps by whom"

    assert "/fleet/acknowledge" in actions(await overview("fleet"))
    assert "/fleet/acknowledge" not in actions(await overview("fleet reads"))
    [name, *_] = [each["name"] for each in (await two_tenants.ask("fleet", "GET", "/api/findings")).json]
    assert await act("fleet reads", "/fleet/acknowledge", finding=name) == 403
    assert await act("owner", "/fleet/acknowledge", finding=name) == 403
    assert await act("fleet", "/fleet/acknowledge", finding=name) == 303
    assert " UTC by fleet." in (await overview("fleet reads")).text.partition("Acknowledged")[2]


@pytest.mark.parametrize("setting_overrides", [dict(SETTING_OVERRIDES)])
async def test_signing_in(two_tenants: TwoTenants) -> None:
    base = f"http://127.0.0.1:{two_tenants.api.port}"
    async with aiohttp.ClientSession(base, cookie_jar=aiohttp.CookieJar(unsafe=True), headers=HTML) as browser:
        async with browser.get("/documents?status=failed") as answer:
            assert (answer.status, answer.url.path, answer.url.query["next"]) == (
                200,
                "/sign-in",
                "/documents?status=failed",
            )
        async with browser.post("/sign-in", data={"key": "pk_wrong"}) as answer:
            assert (answer.status, "pk_wrong" in await answer.text()) == (401, False)
        for wanted in ("//evil.example", "/\\evil.example", "https://evil.example", "/%0d%0a"):
            async with browser.post(
                "/sign-in", data={"key": two_tenants.keys["owner"], "next": wanted}, allow_redirects=False
            ) as answer:
                assert URL(answer.headers["Location"]).host is None, wanted
        async with browser.get("/documents") as answer:
            text = await answer.text()
            assert (answer.status, two_tenants.keys["owner"] in text) == (200, False)
        async with browser.post(
            "/collections", data={"name": "x"}, headers={"Origin": "https://evil.example"}
        ) as answer:
            assert answer.status == 403
        async with browser.post("/sign-out", headers={"Origin": base}) as answer:
            assert answer.url.path == "/sign-in"
        async with browser.get("/documents") as answer:
            assert answer.url.path == "/sign-in"
