"""The dashboard in a real browser: what people do with it, with a worker running, and what hostile content does not do.

The browser is the system's Chromium. An error on its console fails the test, and so does a foreign script that ran. axe-core
checks every page for accessibility, in light and in dark.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from axe_playwright_python.async_playwright import Axe  # type: ignore[import-untyped]
from playwright.async_api import Browser, Page, async_playwright, expect

from penstock.access import create_key
from penstock.product import Product
from penstock.web import make_app
from tests.extraction.sample_pdfs import text_pdf
from tests.real.conftest import need_program
from tests.web.api_server import serving
from tests.web.conftest import Api

pytestmark = pytest.mark.real

ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
EVIL = "<img src=x onerror=window.pwned=1><script>window.pwned=1</script>"


@pytest.fixture
def setting_overrides() -> dict[str, Any]:
    return {}


@pytest.fixture
async def product(database_url: Any, tmp_path: Path, setting_overrides: dict[str, Any]) -> AsyncIterator[Product]:
    usual = {"home": str(tmp_path), "database_url": database_url.reveal(), "pool__size": 6, "extraction__children": 1}
    async with Product(role="test", **(usual | setting_overrides)) as opened:
        yield opened


@pytest.fixture
async def api(product: Product) -> AsyncIterator[Api]:
    async with serving(make_app(product)) as port, aiohttp.ClientSession() as client:
        yield Api(client, port, product)


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    chromium = need_program("chromium", "chromium")
    async with async_playwright() as playwright:
        opened = await playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        yield opened
        await opened.close()


@asynccontextmanager
async def looking(browser: Browser, api: Api, *, allowed: tuple[str, ...] = (), **options: Any) -> AsyncIterator[Page]:
    """A page; at its end, nothing was complained about, and no foreign script ran."""
    context = await browser.new_context(base_url=f"http://127.0.0.1:{api.port}", **options)
    page = await context.new_page()
    complaints: list[str] = []
    page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append(dialog.message))
    yield page
    assert await page.evaluate("window.pwned") is None
    assert [each for each in complaints if not any(word in each for word in allowed)] == []
    await context.close()


async def test_from_upload_to_the_page_that_answers(browser: Browser, api: Api, tmp_path: Path) -> None:
    await api.make("mill")
    paper = tmp_path / "weir log.md"
    paper.write_text("# Weir\n\nThe quokka repaired the weir in March.\n")
    async with looking(browser, api, allowed=("409",)) as page, api.working():
        await page.goto("/documents")
        await page.locator("[data-drop] select").select_option("mill")
        await page.set_input_files('input[type="file"]', paper)
        line = page.locator("[data-uploads] li")
        await expect(line.locator("[role=status]")).to_have_text("ready", timeout=20_000)  # by itself
        await expect(page.locator("tbody .chip.ready")).to_be_visible()
        again = page.locator("[data-uploads] li").first
        await page.set_input_files('input[type="file"]', paper)
        await expect(again.locator("[role=status]")).to_have_text("exists")
        row, sentence = await again.bounding_box(), await again.locator("p").bounding_box()
        assert row is not None and sentence is not None
        assert sentence["width"] == pytest.approx(row["width"]), "the sentence has a line of its own"
        await again.get_by_role("button", name="Replace").click()
        await expect(again.locator("[role=status]")).to_contain_text("unchanged")

        await page.keyboard.press("Escape")
        await page.goto("/")
        await page.keyboard.press("/")
        await page.keyboard.type("who repaired the weir")
        await page.keyboard.press("Enter")
        await expect(page.locator(".hit mark").first).to_be_visible()
        await page.get_by_role("link", name="weir log.md").first.click()
        await expect(page.locator(".text pre mark")).to_contain_text("The quokka repaired the weir")
        await page.get_by_role("link", name="History").click()
        await expect(page.locator(".timeline")).to_contain_text("Attempt 1")


async def test_files_that_are_dropped(browser: Browser, api: Api) -> None:
    await api.make("mill")
    async with looking(browser, api) as page:
        await page.goto("/documents")
        dropped = await page.evaluate_handle(
            """() => {
                const bag = new DataTransfer();
                bag.items.add(new File(["hello"], "dropped.txt"));
                return bag;
            }"""
        )
        await page.dispatch_event("main", "drop", {"dataTransfer": dropped})
        await expect(page.locator("[data-uploads] li")).to_contain_text("No worker is running")
        await expect(page.get_by_role("link", name="dropped.txt").last).to_be_visible()
    assert await api.names() == ["dropped.txt"]
    [added] = (await api.get("/api/documents")).json["items"]
    assert added["collection"] == "default", "no other one is shown"


async def test_the_list_of_uploads_follows_a_failure(browser: Browser, api: Api, tmp_path: Path) -> None:
    paper = tmp_path / "broken.pdf"
    paper.write_bytes(b"%PDF-1.7 broken")
    async with looking(browser, api) as page, api.working():
        await page.goto("/documents")
        await page.set_input_files('input[type="file"]', paper)
        line = page.locator("[data-uploads] li")
        await expect(line.locator("[role=status]")).to_have_text("failed", timeout=20_000)
        await expect(line.locator("p")).to_contain_text("damaged")
        await expect(line.locator("progress")).to_be_hidden()


async def test_a_page_image_is_enlarged(browser: Browser, api: Api) -> None:
    await api.make("mill")
    async with api.working():
        number = (await api.put("log.pdf", text_pdf([(50, 700, 12, "The quokka repaired the weir.")]))).json["id"]
        await api.over(number)
    async with looking(browser, api) as page:
        await page.goto(f"/documents/{number}?passage=0")
        await expect(page.locator("mark.found")).to_have_text("The quokka repaired the weir.")
        await page.locator("[data-enlarge]").click()
        large = page.locator("dialog img")
        await expect(large).to_be_visible()
        await page.wait_for_function("document.querySelector('dialog img').naturalWidth > 900")
        await page.keyboard.press("Escape")
        await expect(large).to_have_count(0)


async def test_a_dead_letter_is_tried_again(browser: Browser, api: Api) -> None:
    await api.make("mill")
    async with looking(browser, api) as page:
        async with api.working():
            broken = (await api.put("broken.pdf", b"%PDF-1.7 broken")).json["id"]
            await api.over(broken)
        async with api.working():
            await page.goto("/jobs")
            await page.get_by_role("button", name="Retry").click()
            await expect(page.locator(".fault")).to_contain_text("nothing was deployed")
            await page.get_by_role("button", name="Retry all the same").click()
            await expect(page.locator(".said")).to_contain_text("Retry started")
            stopped = page.locator(".why").get_by_text("the same failure has returned")
            await expect(stopped).to_be_visible(timeout=20_000)  # by itself
        await page.get_by_role("link", name="Jobs").first.click()
        await page.get_by_text("Discard …").click()
        await page.get_by_label("Reason").first.fill("the original is lost")
        await page.get_by_role("button", name="Discard 1").click()
        await expect(page.get_by_text("No dead jobs")).to_be_visible()


async def test_pause_and_resume(browser: Browser, api: Api) -> None:
    await api.make("mill")
    await api.put("a.txt")
    async with looking(browser, api) as page:
        await page.goto("/jobs")
        await page.get_by_role("button", name="Pause kind").click()
        await expect(page.locator(".said")).to_contain_text("Paused")
        assert [each["name"] for each in (await api.get("/api/pauses")).json] == ["prepare_document"]
        await page.get_by_role("button", name="Resume").click()
        await expect(page.locator(".said")).to_contain_text("Resumed")
    assert (await api.get("/api/pauses")).json == []


async def test_a_page_follows_without_a_reload(browser: Browser, api: Api) -> None:
    await api.make("mill")
    async with looking(browser, api) as page:
        await page.goto("/documents")
        await expect(page.locator("[data-live-state]")).to_have_text("Live")
        await page.evaluate("window.loadedOnce = true")
        number = (await api.put("later.txt", b"It came later.")).json["id"]
        await expect(page.locator("tbody .chip.queued")).to_be_visible()
        await page.get_by_label("Choose later.txt").check()
        async with api.working():
            await expect(page.locator("tbody .chip.ready")).to_be_visible(timeout=20_000)
        assert await page.get_by_label("Choose later.txt").is_checked(), "what was ticked stays so"
        assert await page.evaluate("window.loadedOnce")
        await page.get_by_role("button", name="Delete", exact=True).click()
        await page.get_by_role("button", name="Delete", exact=True).click()
        await expect(page.locator(".said")).to_contain_text("Deleted")
    assert (await api.get(f"/api/documents/{number}")).json["status"] == "deleted"


@pytest.mark.parametrize("setting_overrides", [{"api__require_key": True}])
async def test_signing_in(browser: Browser, api: Api) -> None:
    made = await create_key(api.product.app.database, "ann", scopes=["admin"])
    assert made.key is not None
    async with looking(browser, api, allowed=("401",)) as page:
        await page.goto("/documents?status=failed")
        await page.get_by_label("Key").fill("pk_wrong")
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_role("alert")).to_be_visible()
        await page.get_by_label("Key").fill(made.key.text)
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_role("heading", name="Documents")).to_be_visible()
        await expect(page.locator(".who").first).to_have_text("ann")
        await page.get_by_text("Create a collection").click()
        await page.get_by_role("textbox", name="Name of the collection").fill("mill")
        await page.get_by_role("button", name="Create").click()  # a plain form, with the cookie, from our own page
        await expect(page.locator(".said")).to_contain_text("The collection was created")
        await page.get_by_role("button", name="Sign out").click()
        await page.goto("/")
        await expect(page.get_by_label("Key")).to_be_visible()


async def test_hostile_content_never_runs(browser: Browser, api: Api) -> None:
    await api.make("mill")
    name = "%3Cimg%20src=x%20onerror=window.pwned=1%3E.md"
    metadata = {"X-Penstock-Metadata": f'{{"{EVIL}": "{EVIL}"}}'}
    async with looking(browser, api) as page:
        await page.goto("/documents")
        async with api.working():
            ready = (await api.put(name, f"# {EVIL}\n\nThe weir {EVIL}".encode(), headers=metadata)).json["id"]
            broken = (
                await api.put("%3Cscript%3Ewindow.pwned=1%3C%2Fscript%3E.pdf", b"%PDF-1.7 " + EVIL.encode())
            ).json["id"]
            assert (await api.over(ready))["status"] == "ready"
            assert (await api.over(broken))["status"] == "failed"
        await expect(page.locator("tbody tr")).to_have_count(2)  # put in place by the script
        job = (await api.get(f"/api/documents/{broken}")).json["job"]
        await api.ask("POST", "/api/pauses", json={"what": "kind", "name": "prepare_document", "reason": EVIL})
        for path in (
            "/",
            "/search?q=weir",
            f"/search?q={EVIL}",
            f"/documents/{ready}",
            f"/documents/{ready}?view=chunks",
            f"/documents/{broken}",
            f"/documents/{broken}?view=history",
            "/jobs",
            f"/jobs/{job}",
            f"/documents?name={EVIL}",
        ):
            await page.goto(path)
            await expect(page.locator("main")).to_be_visible()
            assert await page.evaluate("window.pwned") is None, path


async def test_reading_without_scripts_and_on_a_phone(browser: Browser, api: Api) -> None:
    await api.make("mill")
    async with api.working():
        number = (await api.put("a.md", b"# Weir\n\nThe weir holds.\n")).json["id"]
        await api.over(number)
    async with looking(browser, api, java_script_enabled=True, viewport={"width": 400, "height": 844}) as page:
        for path in (
            "/",
            "/documents",
            f"/documents/{number}",
            "/search?q=weir",
            "/jobs",
            "/jobs/finished",
            "/fleet",
            "/packets",
            "/schedules",
            "/docs",
        ):
            await page.goto(path)
            wide = await page.evaluate("document.documentElement.scrollWidth")
            assert wide <= 400, f"{path} is {wide} px wide"
    context = await browser.new_context(base_url=f"http://127.0.0.1:{api.port}", java_script_enabled=False)
    plain = await context.new_page()
    await plain.goto("/documents")
    await plain.get_by_label("Choose a.md").check()
    await plain.get_by_role("button", name="Delete", exact=True).click()
    await plain.get_by_role("button", name="Delete", exact=True).click()
    await expect(plain.locator(".said")).to_contain_text("Deleted")
    await context.close()


@pytest.mark.parametrize("colours", ["light", "dark"])
async def test_pages_are_accessible(browser: Browser, api: Api, colours: str) -> None:
    """axe-core finds no violation of WCAG 2.2, levels A and AA, with everything that can be unfolded open."""
    await api.make("mill")
    form = aiohttp.FormData(default_to_multipart=True)
    form.add_field("file", b"The first page.", filename="a.txt")
    async with api.working():
        paper = (await api.put("log.pdf", text_pdf([(50, 700, 12, "The quokka repaired the weir.")]))).json["id"]
        broken = (await api.put("broken.pdf", b"%PDF-1.7 broken")).json["id"]
        packet = (await api.ask("POST", "/api/packets?collection=mill&name=p", data=form)).json["id"]
        for number in (paper, broken, packet):
            await api.over(number)
    await api.put("queued.txt")
    await api.ask("POST", "/api/pauses", json={"what": "kind", "name": "prepare_document", "reason": "a test"})
    [cause] = (await api.get("/api/dead")).json
    jobs = [(await api.get(f"/api/documents/{number}")).json["job"] for number in (paper, broken)]
    pages = [
        "/",
        "/documents",
        "/documents?sort=name&collection=mill",
        "/documents?name=nothing",
        f"/documents/{paper}?passage=0",
        *(f"/documents/{paper}?view={view}" for view in ("chunks", "history", "versions")),
        f"/documents/{broken}",
        "/search",
        "/search?q=weir",
        "/packets",
        f"/packets/{packet}",
        f"/jobs?cause={cause['fingerprint']}&did=unchanged",
        "/jobs?state=dead",
        "/jobs/finished",
        *(f"/jobs/{job}" for job in jobs),
        "/inbox",
        "/schedules",
        "/fleet",
        "/docs",
        "/sign-in",
        "/nothing",
    ]
    found = []
    # The policy of the pages would not let the test put axe into them.
    options: dict[str, Any] = {"color_scheme": colours, "bypass_csp": True}
    async with looking(browser, api, allowed=("404",), **options) as page:
        for path in pages:
            await page.goto(path)
            found += [f"{path}: {each}" for each in await violations(page)]
        await page.goto(f"/documents/{paper}")
        await page.get_by_role("button", name="Delete").click()
        found += [f"confirm: {each}" for each in await violations(page)]
        await page.goto(f"/documents/{paper}")
        await page.locator("[data-enlarge]").click()
        found += [f"enlarged: {each}" for each in await violations(page)]
    assert found == []


async def violations(page: Page) -> list[str]:
    await page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    options = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}
    answer = await Axe().run(page, options=options)
    assert answer.response["passes"], "it has looked at something"
    return [
        f"{each['id']}: {node['html'][:200]} {node['failureSummary']}"
        for each in answer.response["violations"]
        for node in each["nodes"]
    ]
