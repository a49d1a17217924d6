"""Links that carry their own permission: for one document, for some minutes, and for nothing else."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from penstock.product import Product
from tests.web.two_tenants import SETTING_OVERRIDES, TwoTenants, move_clock, reopened, staged


@pytest.fixture
def setting_overrides() -> dict[str, Any]:
    return dict(SETTING_OVERRIDES)


@pytest.fixture
async def two_tenants(product: Product) -> AsyncIterator[TwoTenants]:
    async with staged(product) as made:
        yield made


async def put(two_tenants: TwoTenants, key: str = "rival", name: str = "a.txt") -> int:
    answer = await two_tenants.ask(key, "PUT", f"/api/collections/porch/documents/{name}", data=name.encode())
    assert answer.status == 202, answer.body
    number: int = answer.json["id"]
    return number


async def link(two_tenants: TwoTenants, number: int, key: str = "rival", query: str = "") -> str:
    answer = await two_tenants.ask(key, "POST", f"/api/documents/{number}/link{query}")
    assert answer.status == 201, answer.body
    url: str = answer.json["url"]
    return url


async def test_a_link_needs_no_key(two_tenants: TwoTenants) -> None:
    number = await put(two_tenants)
    url = await link(two_tenants, number)
    answer = await two_tenants.ask(None, "GET", url)
    assert (answer.status, answer.body) == (200, b"a.txt")
    assert answer.headers["Cache-Control"] == "no-store"
    part = await two_tenants.ask(None, "GET", url, headers={"Range": "bytes=0-0"})
    assert (part.status, part.body) == (206, b"a")
    # A key that is sent with it counts, and a wrong one is told.
    assert (await two_tenants.ask("mill reads", "GET", url)).status == 404
    assert (await two_tenants.ask("pk_x", "GET", url)).status == 401


async def test_for_nothing_else(two_tenants: TwoTenants) -> None:
    number, another, foreign = (
        await put(two_tenants),
        await put(two_tenants, name="b.txt"),
        await put(two_tenants, "owner", "c.txt"),
    )
    token = (await link(two_tenants, number)).partition("?")[2]
    answers = []
    for other in (another, foreign, 987654321, 0):
        answer = await two_tenants.ask(None, "GET", f"/api/documents/{other}/content?{token}")
        assert answer.status == 404, answer.body
        answers.append(answer.json["detail"])
    assert len(set(answers[:3])) == 1, "what is there and what is not sound alike"
    for path in ("", "/text", "/pages", "/chunks", "/why", "/history", "/link", "/content/", "/content%2F"):
        assert (await two_tenants.ask(None, "GET", f"/api/documents/{number}{path}?{token}")).status == 401, path
    for method in ("POST", "DELETE", "PUT", "PATCH"):
        assert (await two_tenants.ask(None, method, f"/api/documents/{number}/content?{token}")).status == 401, method
    for path in ("/api/documents", "/api/search?q=a", "/api/keys", "/api/status"):
        joined = f"{path}{'&' if '?' in path else '?'}{token}"
        assert (await two_tenants.ask(None, "GET", joined)).status == 401, path


async def test_tampered(two_tenants: TwoTenants) -> None:
    number = await put(two_tenants)
    token = (await link(two_tenants, number)).partition("link=")[2]
    version, signer, moment, signature = token.split(".")
    other = "B" if signature[0] != "B" else "C"
    wrong = [
        "",
        "x",
        f"{version}.{signer}.{int(moment) + 1}.{signature}",
        f"{version}.{signer}.{moment}.{other}{signature[1:]}",
        f"{version}.{signer}.{moment}.{signature[:-1]}",
        f"{version}.00000000.{moment}.{signature}",
        f"v2.{signer}.{moment}.{signature}",
        f"{version}..{moment}.{signature}",
        f"{token}%00",
        f"{token}%0a",
        "." * 3,
        "v1." * 1000,
    ]
    for each in wrong:
        answer = await two_tenants.ask(None, "GET", f"/api/documents/{number}/content?link={each}")
        assert answer.status == (422 if each.endswith("%00") else 404), each
        assert b"a.txt" not in answer.body
    doubled = f"/api/documents/{number}/content?link=x&link={token}"
    assert (await two_tenants.ask(None, "GET", doubled)).status == 404
    assert (await two_tenants.ask(None, "GET", f"/api/documents/{number}/content?link={token}")).status == 200


async def test_only_for_minutes(two_tenants: TwoTenants, product: Product) -> None:
    number = await put(two_tenants)
    for seconds in ("0", "901", "-1", "x"):
        assert (
            await two_tenants.ask("rival", "POST", f"/api/documents/{number}/link?seconds={seconds}")
        ).status == 422, seconds
    short = await link(two_tenants, number, query="?seconds=1")
    url = await link(two_tenants, number, query="?seconds=900")
    async with asyncio.timeout(5):
        while (await two_tenants.ask(None, "GET", short)).status == 200:  # noqa: ASYNC110  time passes
            await asyncio.sleep(0.05)
    await move_clock(product, timedelta(minutes=14))
    async with reopened(product) as later:
        assert (await later.ask(None, "GET", url)).status == 200
    await move_clock(product, timedelta(minutes=1))
    async with reopened(product) as later:  # a process counts on from what the database said: another one has to look
        answer = await later.ask(None, "GET", url)
        assert (answer.status, "any more" in answer.json["detail"]) == (404, True)


async def test_of_what_is_deleted(two_tenants: TwoTenants) -> None:
    number = await put(two_tenants)
    url = await link(two_tenants, number)
    assert (await two_tenants.ask("rival", "DELETE", f"/api/documents/{number}")).status == 202
    answer = await two_tenants.ask(None, "GET", url)
    assert answer.status == 404
    assert b"a.txt" not in answer.body
    assert (await two_tenants.ask("rival", "POST", f"/api/documents/{number}/link")).status == 404


async def test_the_first_link_of_a_process(two_tenants: TwoTenants) -> None:
    """The secrets are made and read for it, although its tenant may not read them."""
    assert two_tenants.api.product.app.database.pool.guarded
    numbers = {key: await put(two_tenants, key) for key in ("rival", "owner", "fleet")}
    urls = await asyncio.gather(*(link(two_tenants, number, key) for key, number in numbers.items()))
    for url in urls:
        assert (await two_tenants.ask(None, "GET", url)).status == 200
    assert (await two_tenants.ask("mill porch", "GET", urls[1].partition("/content")[0])).status == 200
    assert (await two_tenants.ask("rival porch", "GET", urls[1].partition("/content")[0])).status == 404
