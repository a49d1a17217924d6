"""Two tenants behind one API that asks for keys: `mill` has documents of every kind, and nobody else may notice any of them.

Everything that belongs to `mill` carries a canary, or a digest that is known. The collection `attic` and `letter.txt` in it
have plain names, because strangers must be able to ask for them.
"""

import asyncio
import hashlib
import io
import json
import zipfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import aiohttp
from yarl import URL

from penstock import memos
from penstock.access import create_key
from penstock.documents import Upload, create_collection, find_collection
from penstock.documents.ingest.upload import check_upload
from penstock.documents.packets import PacketFile
from penstock.knowledge.crawl.crawl import begin_crawl
from penstock.web import make_app
from tests.web.api_server import serving
from tests.web.conftest import Answer, Api

CANARY = "quokkazebra"  # one word, for search finds it as such
TEXT = f"# The {CANARY}\n\nThe {CANARY} was repaired in March, and the weir holds.\n".encode()
SETTING_OVERRIDES = {
    "api__require_key": True,
    "rates__per_address": "off",  # a wrong key counts as ten requests, and there are hundreds of them here
    "rates__read": "off",
    "rates__write": "off",
    "rates__search": "off",
}


@dataclass
class TwoTenants:
    """The API, what `mill` has, and keys."""

    api: Api
    letter: int = 0  # of `mill`, ready, in attic
    members: list[int] = field(default_factory=list)
    broken: int = 0  # failed
    gone: int = 0  # deleted, with a receipt
    waiting: int = 0  # queued
    packet: int = 0  # ready, in attic
    job: int = 1  # of the one that is queued
    cause: str = "none"  # of the broken one's death
    message: int = 1  # of `mill`, failed
    crawl: int = 1  # of `mill`, into attic, running
    key: int = 0  # a key of `mill`
    keys: dict[str, str] = field(default_factory=dict)
    secrets: set[str] = field(default_factory=set)  # of `mill`: none may be in an answer to another

    async def make_key(self, label: str, **options: Any) -> int:
        made = await create_key(self.api.product.app.database, **({"name": label} | options))
        assert made.key is not None
        self.keys[label] = made.key.text
        return made.id

    async def ask(self, key: str | None, method: str, path: str, **options: Any) -> Answer:
        """With the key of this label, or this text; of a stream without an end, its beginning."""
        headers = dict(options.pop("headers", {}))
        if key is not None:
            headers["Authorization"] = f"Bearer {self.keys.get(key, key)}"
        if path != "/api/events":
            return await self.api.ask(method, path, headers=headers, **options)
        url = URL(f"http://127.0.0.1:{self.api.port}{path}")
        async with aiohttp.ClientSession() as client, client.request(method, url, headers=headers) as answer:
            body = await answer.content.readany()
            return Answer(answer.status, answer.headers, body, json.loads(body) if answer.status != 200 else None)

    def leaks(self, answer: Answer) -> list[str]:
        """What of `mill` can be seen in an answer, its headers among it."""
        seen = answer.body.decode("utf-8", "replace").lower() + str(dict(answer.headers)).lower()
        return sorted(secret for secret in self.secrets if secret.lower() in seen)


async def until(condition: Callable[[], Awaitable[bool]], within: float = 60) -> None:
    async with asyncio.timeout(within):
        while not await condition():  # noqa: ASYNC110  no event for what another task does
            await asyncio.sleep(0.05)


async def _pieces(content: bytes) -> AsyncIterator[bytes]:
    yield content


def _archive() -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr(f"{CANARY}-inside.txt", f"The {CANARY} inside.\n")
    return target.getvalue()


@asynccontextmanager
async def staged(product: Any) -> AsyncIterator[TwoTenants]:
    """With keys, and without any document."""
    async with serving(make_app(product)) as port, aiohttp.ClientSession() as client:
        two_tenants = TwoTenants(Api(client, port, product))
        app, tenant = product.app, "mill"
        for name in ("attic", "porch", f"{CANARY}-cellar"):
            await create_collection(app, name, tenant=tenant)
        await create_collection(app, "porch", tenant="rival")
        await create_collection(app, "porch")
        two_tenants.key = await two_tenants.make_key("owner", name=f"{CANARY}-ann", tenant=tenant, scopes=["admin"])
        await two_tenants.make_key("mill reads", tenant=tenant, scopes=["read"])
        await two_tenants.make_key("mill writes", tenant=tenant, scopes=["write"])
        await two_tenants.make_key("mill porch", tenant=tenant, scopes=["read", "write"], collections=["porch"])
        await two_tenants.make_key("rival", tenant="rival", scopes=["admin"])
        await two_tenants.make_key("rival porch", tenant="rival", scopes=["read", "write"], collections=["porch"])
        await two_tenants.make_key("fleet", scopes=["admin"])
        two_tenants.secrets = {CANARY, two_tenants.keys["owner"][3:11]}
        yield two_tenants


async def fill(two_tenants: TwoTenants) -> None:
    """Documents of `mill` in every state, each where only its owner may find it."""
    product = two_tenants.api.product

    async def add(name: str, content: bytes, collection: str = "attic") -> int:
        two_tenants.secrets.add(hashlib.sha256(content).hexdigest())
        upload = Upload(collection, name, _pieces(content), metadata={"for": CANARY}, uploaded_by=f"{CANARY}-ann")
        return (await product.intake.accept(upload, tenant="mill")).id

    async with two_tenants.api.working():
        two_tenants.letter = await add("letter.txt", TEXT)
        box = await add(f"{CANARY}.zip", _archive())
        two_tenants.broken = await add(f"{CANARY}.pdf", b"%PDF-1.7 broken")
        two_tenants.gone = await add(f"{CANARY}-gone.txt", TEXT + b"gone", f"{CANARY}-cellar")

        collection = await find_collection(product.app, "attic", tenant="mill")
        body = check_upload(Upload("attic", f"{CANARY}-packet", _pieces(b"")), "mill", collection.id, served=True)
        page = await product.store.write(_pieces(TEXT + b"in a packet"), most=2**20)
        two_tenants.packet = (await product.packets.accept(body, [PacketFile(f"{CANARY}-page.txt", page)])).id

        async def settled() -> bool:
            found = (await two_tenants.ask("owner", "GET", "/api/documents")).json["items"]
            two_tenants.members = [each["id"] for each in found if each["parent"] == box]
            return bool(two_tenants.members) and {each["status"] for each in found} == {"ready", "failed"}

        await until(settled)
        removed = {"collection": f"{CANARY}-cellar", "all": True, "now": True, "reason": f"the {CANARY} is over"}
        assert (await two_tenants.ask("owner", "POST", "/api/documents/delete", json=removed)).status == 202

        async def receipt() -> bool:
            return (await two_tenants.ask("owner", "GET", f"/api/documents/{two_tenants.gone}/receipt")).status == 200

        await until(receipt)
    url = f"https://{CANARY}.example/"
    two_tenants.crawl = (
        await begin_crawl(product.app, url, await find_collection(product.app, "attic", tenant="mill"))
    ).id
    two_tenants.waiting = await add(f"{CANARY}-waiting.txt", TEXT + b"waiting")
    rows = await product.app.database.pool.repeat(
        lambda session: session.fetch("select key from penstock.blobs where tenant = 'mill'")
    )
    two_tenants.secrets |= {row["key"] for row in rows}
    await _find_jobs(two_tenants)
    await _remember(product)


async def _find_jobs(two_tenants: TwoTenants) -> None:
    """The numbers of jobs, and a message whose job is dead."""
    pool = two_tenants.api.product.app.database.pool
    found = await pool.repeat(
        lambda session: session.fetchrow(
            """
            select (select job_id from penstock.documents where id = $1) as job,
              (select fingerprint from penstock.jobs where state = 'dead' order by id limit 1) as cause,
              (select job_id from penstock.documents where id = $2) as dead
            """,
            two_tenants.waiting,
            two_tenants.broken,
        )
    )
    two_tenants.job, two_tenants.cause = found["job"], found["cause"]
    two_tenants.message = await pool.repeat(
        lambda session: session.fetchval(
            """
            insert into penstock.inbox (tenant, source, message_id, digest, payload, state, job_id, error)
            values ('mill', $1, $1, decode(repeat('00', 32), 'hex'), '{}', 'failed', $2, '{"message": "no"}') returning id
            """,
            f"{CANARY}-post",
            found["dead"],
        )
    )


async def _remember(product: Any) -> None:
    """A conversation of `mill`, in the stream attic, and a memo of it."""
    said = [memos.Message(f"{CANARY}-1", f"The {CANARY} was repaired in March.", f"{CANARY}-ann")]
    async with product.app.database.pool.transaction() as tx:
        posted = await memos.post(tx, "attic", said, tenant="mill", most=10)
        memo = await tx.fetchval(
            """
            insert into penstock.memos (tenant, stream_id, text, kind, confidence, words, llm, job_id)
            values ('mill', $1, $2, 'fact', 1, to_tsvector('english', $2), 'main', 1) returning id
            """,
            posted.stream_id,
            said[0].text,
        )
        await tx.execute(
            "insert into penstock.memo_messages (tenant, memo_id, stream_id, seq) values ('mill', $1, $2, 1)",
            memo,
            posted.stream_id,
        )


async def move_clock(product: Any, by: timedelta) -> None:
    await product.app.database.pool.repeat(
        lambda session: session.execute("update penstock.test_clock set shift = shift + $1", by)
    )


@asynccontextmanager
async def reopened(product: Any) -> AsyncIterator[TwoTenants]:
    """Another application over the same product, as in a process that has just started."""
    async with serving(make_app(product)) as port, aiohttp.ClientSession() as client:
        yield TwoTenants(Api(client, port, product))
