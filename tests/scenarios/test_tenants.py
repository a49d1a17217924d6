"""Two tenants with the same names for everything, hammering on two API processes: no answer has a trace of the other."""

import asyncio
import hashlib
import random
import time
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import aiohttp
import pytest

from penstock.access import create_key, revoke_key
from penstock.documents import create_collection
from tests.scenarios.product_processes import ProductProcesses

pytestmark = pytest.mark.slow

SECONDS = 8.0
NAMES = [f"paper-{number}.txt" for number in range(12)]
COLLECTIONS = ["same", "also"]
CANARIES = {"red": "vermilionotter", "blue": "ceruleanbadger"}
SHARED = b"The same bytes for everybody, word for word.\n"
PLENTY = {f"PENSTOCK_RATES__{name}": "off" for name in ("READ", "WRITE", "SEARCH", "PER_ADDRESS")}


@dataclass
class Team:
    """A tenant, its keys, and what it knows of itself."""

    name: str
    canary: str
    other: str
    addresses: list[str]
    http: aiohttp.ClientSession
    keys: list[str] = field(default_factory=list)
    revoked: dict[str, float] = field(default_factory=dict)  # since when
    numbers: dict[int, str] = field(default_factory=dict)  # its documents
    links: list[str] = field(default_factory=list)
    statuses: dict[int, int] = field(default_factory=dict)
    crossings: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)

    async def ask(self, method: str, path: str, *, key: str | None = None, **options: Any) -> tuple[int, Any]:
        """A request with one of its keys, or with none (""); every answer is looked through for the other."""
        key = random.choice(self.keys) if key is None else key
        headers = options.pop("headers", {}) | ({"Authorization": f"Bearer {key}"} if key else {})
        asked_at = time.monotonic()
        async with self.http.request(
            method, random.choice(self.addresses) + path, headers=headers, **options
        ) as answer:
            body = await answer.read()
            told = await answer.json(content_type=None) if "json" in answer.content_type else body
        seen = body.decode("utf-8", "replace").lower() + str(answer.headers).lower()
        if self.other in seen:
            self.crossings.append(f"{method} {path}: {seen[:500]}")
        self.statuses[answer.status] = self.statuses.get(answer.status, 0) + 1
        if key in self.revoked and asked_at > self.revoked[key] + 2 and answer.status != 401:
            self.late.append(
                f"{method} {path}: {answer.status}, {asked_at - self.revoked[key]:.1f} s after it was revoked"
            )
        return answer.status, told

    def text(self) -> bytes:
        if random.random() < 0.2:
            return SHARED
        return f"The {self.canary} number {random.randrange(10**9)} was here, and the weir holds.\n".encode()

    async def put(self, draw: random.Random) -> None:
        path = f"/api/collections/{draw.choice(COLLECTIONS)}/documents/{draw.choice(NAMES)}?replace=true"
        status, told = await self.ask("PUT", path, data=self.text(), headers=_sometimes_once())
        if status == 202:
            self.numbers[told["id"]] = told["name"]

    async def look(self, draw: random.Random) -> None:
        question = draw.choice([self.other, self.canary, "weir", "same bytes for everybody"])
        path = draw.choice(
            [
                f"/api/search?q={question}&k=50&neighbours=1",
                f"/api/search?q={question}&collection=same",
                "/api/documents?limit=1000",
                "/api/documents?collection=same&status=ready",
                "/api/collections",
                "/api/collections/same",
                f"/api/collections/same/documents/{draw.choice(NAMES)}",
                "/api/status",
                "/api/receipts",
                "/api/keys",
            ]
        )
        status, told = await self.ask("GET", path)
        if status == 200 and path.startswith("/api/documents"):
            self.numbers.update({each["id"]: each["name"] for each in told["items"]})

    async def touch(self, draw: random.Random, strange: "Team") -> None:
        """Its own documents, and those of the other, by number."""
        if not self.numbers or not strange.numbers:
            return
        mine = draw.choice(list(self.numbers))
        rest = draw.choice(["", "/content", "/text", "/chunks", "/why", "/history", "/pages", "/receipt"])
        await self.ask("GET", f"/api/documents/{mine}{rest}")
        theirs = draw.choice(list(strange.numbers))
        method, rest = draw.choice(
            [("DELETE", ""), *(("POST", each) for each in ("/retry", "/cancel", "/link", "/restore"))]
            if draw.random() < 0.5
            else [("GET", each) for each in ("", "/content", "/text", "/why", "/history", "/receipt")]
        )
        status, told = await self.ask(method, f"/api/documents/{theirs}{rest}")
        if status not in {401, 404}:
            self.crossings.append(f"{method} {theirs}{rest} of the other: {status} {told}")

    async def remove(self, draw: random.Random) -> None:
        if self.numbers:
            await self.ask("DELETE", f"/api/documents/{draw.choice(list(self.numbers))}")

    async def link(self, draw: random.Random, strange: "Team") -> None:
        if not self.numbers:
            return
        status, told = await self.ask("POST", f"/api/documents/{draw.choice(list(self.numbers))}/link")
        if status == 201:
            self.links.append(told["url"])
            await self.ask("GET", told["url"], key="")
            if strange.numbers:  # the same permission, for a document of the other
                token = told["url"].partition("?")[2]
                path = f"/api/documents/{draw.choice(list(strange.numbers))}/content?{token}"
                status, told = await self.ask("GET", path, key="")
                if status != 404:
                    self.crossings.append(f"{path}: {status} {told}")


def _sometimes_once() -> dict[str, str]:
    """The other uses the same idempotency keys."""
    return {"Idempotency-Key": str(random.randrange(10**4))} if random.random() < 0.2 else {}


async def hammer(team: Team, strange: Team, seed: int, until: float) -> None:
    draw = random.Random(seed)
    while time.monotonic() < until:
        what = draw.random()
        if what < 0.35:
            await team.put(draw)
        elif what < 0.65:
            await team.look(draw)
        elif what < 0.85:
            await team.touch(draw, strange)
        elif what < 0.95:
            await team.link(draw, strange)
        else:
            await team.remove(draw)


async def change_keys(product_processes: ProductProcesses, team: Team, until: float) -> None:
    """Every second another key, and the oldest one is revoked; the clients go on to use it for a while."""
    while time.monotonic() < until:
        await asyncio.sleep(1.0)
        database = product_processes.product.app.database
        made = await create_key(database, f"{team.canary} {len(team.revoked)}", tenant=team.name, scopes=["admin"])
        assert made.key is not None
        oldest = next(key for key in team.keys if key not in team.revoked)
        await revoke_key(database, oldest[:11])
        team.revoked[oldest] = time.monotonic()
        team.keys.append(made.key.text)
        team.keys = [key for key in team.keys if time.monotonic() - team.revoked.get(key, time.monotonic()) < 3]


@pytest.mark.parametrize("names", [("red", "blue")])
async def test_two_tenants_with_the_same_names(product_processes: ProductProcesses, names: tuple[str, str]) -> None:
    addresses = []
    for _ in range(2):
        await product_processes.start_api(PENSTOCK_API__REQUIRE_KEY="true", **PLENTY)
        addresses.append(product_processes.address)
    await product_processes.start_worker()
    teams = {}
    database = product_processes.product.app.database
    for name, other in (names, names[::-1]):
        team = teams[name] = Team(name, CANARIES[name], CANARIES[other], addresses, product_processes.http)
        for collection in COLLECTIONS:
            await create_collection(product_processes.product.app, collection, tenant=name)
        for number in range(3):
            made = await create_key(database, f"{team.canary} {number}", tenant=name, scopes=["admin"])
            assert made.key is not None
            team.keys.append(made.key.text)
    red, blue = teams.values()
    until = time.monotonic() + SECONDS
    async with asyncio.TaskGroup() as group:
        for seed in range(3):
            group.create_task(hammer(red, blue, seed, until))
            group.create_task(hammer(blue, red, seed, until))
        group.create_task(change_keys(product_processes, red, until))
        group.create_task(change_keys(product_processes, blue, until))
    for team in (red, blue):
        assert not team.crossings, team.crossings[:3]
        assert not team.late, team.late[:3]
        assert not [status for status in team.statuses if status >= 500], team.statuses
        assert {200, 201, 202, 401, 404} <= team.statuses.keys(), f"all of it happened: {team.statuses}"
        assert sum(team.statuses.values()) > 60, team.statuses
    await product_processes.until_over()
    for team in (red, blue):
        await check_counts(product_processes, team)
    await check_blobs(product_processes)
    assert await product_processes.violations() == []


async def check_counts(product_processes: ProductProcesses, team: Team) -> None:
    """What the API tells a tenant is what the database has of it."""
    key = next(key for key in team.keys if key not in team.revoked)
    rows = await product_processes.connection.fetch(
        "select id from penstock.documents where tenant = $1 and state <> 'deleted' order by id", team.name
    )
    _, listed = await team.ask("GET", "/api/documents?limit=1000", key=key)
    assert [each["id"] for each in listed["items"]] == [row["id"] for row in rows]
    _, status = await team.ask("GET", "/api/status", key=key)
    assert status["documents"]["ready"] + status["documents"]["failed"] == len(rows)
    _, found = await team.ask("GET", f"/api/search?q={team.canary}&k=100&mode=words", key=key)
    assert {hit["document"] for hit in found["hits"]} <= {row["id"] for row in rows}
    assert found["hits"], "its own words are found"
    _, keys = await team.ask("GET", "/api/keys?limit=1000", key=key)
    assert {each["prefix"] for each in keys["items"]} >= {text[3:11] for text in team.keys}
    by = await product_processes.connection.fetch(
        "select distinct uploaded_by from penstock.documents where tenant = $1 and state <> 'deleted'", team.name
    )
    assert all(row["uploaded_by"].startswith(team.canary) for row in by), by
    assert not team.crossings, team.crossings[:3]


async def check_blobs(product_processes: ProductProcesses) -> None:
    """The same bytes of two tenants are two blobs."""
    rows = await product_processes.connection.fetch(
        "select tenant, key from penstock.blobs where digest = $1 and state = 'kept'", hashlib.sha256(SHARED).digest()
    )
    tenants = [row["tenant"] for row in rows]
    assert len(tenants) == len(set(tenants))
    shared = await product_processes.connection.fetchval(
        "select count(*) from penstock.versions as version join penstock.blobs as blob on blob.id = blob_id "
        "where version.tenant <> blob.tenant"
    )
    assert shared == 0


async def test_revoked_in_another_process(product_processes: ProductProcesses) -> None:
    """Within two seconds; an expiry, by the database's clock."""
    await product_processes.start_api(PENSTOCK_API__REQUIRE_KEY="true")
    database = product_processes.product.app.database
    revoked = await create_key(database, "ann", scopes=["read"])
    expiring = await create_key(database, "bob", scopes=["read"], expires_in=timedelta(hours=1))

    async def status(key: Any) -> int:
        headers = {"Authorization": f"Bearer {key.text}"}
        async with product_processes.http.get(f"{product_processes.address}/api/documents", headers=headers) as answer:
            return answer.status

    assert (await status(revoked.key), await status(expiring.key)) == (200, 200)
    await revoke_key(database, str(revoked.id))
    await product_processes.connection.execute("update penstock.test_clock set shift = '59 minutes 59 seconds'")
    began = time.monotonic()
    while await status(revoked.key) != 401 or await status(expiring.key) != 401:
        assert time.monotonic() - began < 2
        await asyncio.sleep(0.05)
