"""A stand-in for Qdrant: the part of its REST interface that Penstock uses, strict about what it is sent, and bad on command.

    async with standing_in() as server:
        server.url                      # for qdrant.url
        await server.stop(); await server.start()     # away, and back with all of its points
        server.mood = "500"             # or "slow", "forgets", "busy"
        server.points("penstock-static")              # its contents, without a request

It keeps what it has in memory, refuses wrong numbers, dimensions and filters with Qdrant's codes, scrolls in the order of
numbers, and counts exactly only who asks for it. With PENSTOCK_TEST_QDRANT_URL the tests that ask for `qdrant` run against a
real server, too.
"""

import asyncio
import json
import math
import os
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from aiohttp import web

Mood = Literal["well", "slow", "500", "busy", "forgets"]
Key = int | str

REAL = "PENSTOCK_TEST_QDRANT_URL"
SLOW = 30.0  # seconds
VALUES = {"integer": int, "keyword": str}


class Refusal(Exception):
    """An answer that is not 200."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__(said)
        self.status = status


@dataclass
class Kept:
    """A collection there."""

    size: int
    distance: str
    points: dict[Key, tuple[list[float], dict[str, Any]]] = field(default_factory=dict)
    indexed: dict[str, str] = field(default_factory=dict)

    def in_order(self) -> list[Key]:
        """Integer ids before texts, as Qdrant orders them."""
        return sorted(self.points, key=lambda key: (isinstance(key, str), key))


class StandIn:
    """The server, on one port for as long as it lives."""

    def __init__(self, key: str | None = None) -> None:
        self.kept: dict[str, Kept] = {}
        self.mood: Mood = "well"
        self.key = key
        self.prefix = "penstock-"
        self.asked: list[str] = []  # method and path of each request
        self.before: Callable[[str], Awaitable[None]] | None = None  # called with the path of each request
        self._port = 0
        self._runner: web.AppRunner | None = None
        self._operation = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def points(self, name: str = "penstock-static") -> dict[Key, tuple[list[float], dict[str, Any]]]:
        return self.kept[name].points if name in self.kept else {}

    async def count(self, name: str = "penstock-static") -> int:
        return len(self.points(name))

    async def start(self) -> None:
        app = web.Application(middlewares=[self._answer], client_max_size=2**28)
        app.add_routes(
            [
                web.get("/", self._root),
                web.get("/collections/{name}/exists", self._exists),
                web.get("/collections/{name}", self._show),
                web.put("/collections/{name}", self._create),
                web.delete("/collections/{name}", self._drop),
                web.put("/collections/{name}/index", self._index),
                web.put("/collections/{name}/points", self._upsert),
                web.post("/collections/{name}/points/delete", self._delete),
                web.post("/collections/{name}/points/count", self._count),
                web.post("/collections/{name}/points/scroll", self._scroll),
                web.post("/collections/{name}/points/query", self._query),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port, reuse_address=True)
        await site.start()
        self._port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Away: connections are refused, and those that there are end."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    # -- answering ----------------------------------------------------------------------------------------------------

    @web.middleware
    async def _answer(self, request: web.Request, handler: Any) -> web.StreamResponse:
        self.asked.append(f"{request.method} {request.path}")
        if self.before is not None:
            await self.before(request.path)
        if self.mood == "slow":
            await asyncio.sleep(SLOW)
        try:
            self._let_in(request)
            return web.json_response({"result": await handler(request), "status": "ok", "time": 0.0001})
        except Refusal as refusal:
            return web.json_response(
                {"status": {"error": str(refusal)}, "time": 0.0, "result": None}, status=refusal.status
            )

    def _let_in(self, request: web.Request) -> None:
        if self.mood == "500":
            raise Refusal(500, "Service internal error: RocksDB open error")
        if self.mood == "busy":
            raise Refusal(503, "Service unavailable")
        if self.key is not None and request.headers.get("api-key") != self.key:
            raise Refusal(401 if "api-key" not in request.headers else 403, "Must provide an API key")

    def _found(self, request: web.Request) -> Kept:
        name = request.match_info["name"]
        if name not in self.kept:
            raise Refusal(404, f"Not found: Collection `{name}` doesn't exist!")
        return self.kept[name]

    async def _body(self, request: web.Request, *known: str) -> dict[str, Any]:
        try:
            body = json.loads(await request.read())
        except ValueError as error:
            raise Refusal(400, f"Format error in JSON body: {error}") from None
        if not isinstance(body, dict):
            raise Refusal(400, "Format error in JSON body: invalid type")
        if unknown := {key for key, value in body.items() if value is not None} - set(known):
            raise Refusal(400, f"Format error in JSON body: unknown field `{min(unknown)}`")
        return body

    async def _root(self, request: web.Request) -> Any:
        return {"title": "qdrant - vector search engine", "version": "1.15.0"}

    async def _exists(self, request: web.Request) -> Any:
        return {"exists": request.match_info["name"] in self.kept}

    async def _show(self, request: web.Request) -> Any:
        kept = self._found(request)
        return {
            "status": "green",
            "optimizer_status": "ok",
            "indexed_vectors_count": 0,
            "points_count": len(kept.points),
            "segments_count": 2,
            "config": {
                "params": {
                    "vectors": {"size": kept.size, "distance": kept.distance},
                    "shard_number": 1,
                    "replication_factor": 1,
                    "write_consistency_factor": 1,
                    "on_disk_payload": True,
                },
                "hnsw_config": {"m": 16, "ef_construct": 100, "full_scan_threshold": 10000, "max_indexing_threads": 0},
                "optimizer_config": {
                    "deleted_threshold": 0.2,
                    "vacuum_min_vector_number": 1000,
                    "default_segment_number": 0,
                    "flush_interval_sec": 5,
                },
                "wal_config": {"wal_capacity_mb": 32, "wal_segments_ahead": 0},
            },
            "payload_schema": {
                name: {"data_type": kind, "points": len(kept.points)} for name, kind in kept.indexed.items()
            },
        }

    async def _create(self, request: web.Request) -> Any:
        name = request.match_info["name"]
        body = await self._body(request, "vectors")
        vectors = body.get("vectors")
        if not isinstance(vectors, dict) or not isinstance(vectors.get("size"), int) or vectors["size"] < 1:
            raise Refusal(422, "Validation error in JSON body: vectors.size must be 1 or larger")
        if vectors.get("distance") not in {"Dot", "Cosine", "Euclid", "Manhattan"}:
            raise Refusal(400, "Format error in JSON body: unknown variant of distance")
        if name in self.kept:
            raise Refusal(409, f"Wrong input: Collection `{name}` already exists!")
        self.kept[name] = Kept(vectors["size"], vectors["distance"])
        return True

    async def _drop(self, request: web.Request) -> Any:
        return self.kept.pop(request.match_info["name"], None) is not None

    async def _index(self, request: web.Request) -> Any:
        kept = self._found(request)
        body = await self._body(request, "field_name", "field_schema")
        if body["field_schema"] not in VALUES:
            raise Refusal(400, "Format error in JSON body: unknown field_schema")
        kept.indexed[body["field_name"]] = body["field_schema"]
        return self._done()

    # -- points -------------------------------------------------------------------------------------------------------

    async def _upsert(self, request: web.Request) -> Any:
        kept = self._found(request)
        body = await self._body(request, "points")
        given = [self._point(kept, each) for each in body["points"]]
        if self.mood != "forgets":
            await self._apply(request, lambda: kept.points.update({key: (vector, load) for key, vector, load in given}))
        return self._done()

    def _point(self, kept: Kept, given: Any) -> tuple[Key, list[float], dict[str, Any]]:
        vector, payload = given.get("vector"), given.get("payload") or {}
        if not isinstance(vector, list) or not all(isinstance(n, int | float) and math.isfinite(n) for n in vector):
            raise Refusal(
                400, "Format error in JSON body: data did not match any variant of untagged enum VectorStruct"
            )
        if len(vector) != kept.size:
            raise Refusal(400, f"Wrong input: Vector dimension error: expected dim: {kept.size}, got {len(vector)}")
        if not isinstance(payload, dict):
            raise Refusal(400, "Format error in JSON body: payload must be an object")
        return _checked(given.get("id")), [float(number) for number in vector], payload

    async def _delete(self, request: web.Request) -> Any:
        kept = self._found(request)
        body = await self._body(request, "points", "filter")
        if (body.get("points") is None) == (body.get("filter") is None):
            raise Refusal(
                400, "Format error in JSON body: data did not match any variant of untagged enum PointsSelector"
            )
        if body.get("points") is not None:
            gone = [_checked(key) for key in body["points"]]
        else:
            gone = self._matching(kept, body["filter"])

        def remove() -> None:
            for key in gone:
                kept.points.pop(key, None)

        if self.mood != "forgets":
            await self._apply(request, remove)
        return self._done()

    async def _count(self, request: web.Request) -> Any:
        kept = self._found(request)
        body = await self._body(request, "filter", "exact")
        found = len(self._matching(kept, body.get("filter")))
        return {"count": found if body.get("exact", True) else found + 7}  # an estimate

    async def _scroll(self, request: web.Request) -> Any:
        kept = self._found(request)
        body = await self._body(request, "offset", "limit", "filter", "with_payload", "with_vector")
        limit = body.get("limit") or 10
        if limit < 1:
            raise Refusal(422, "Validation error in JSON body: limit must be 1 or larger")
        found = self._matching(kept, body.get("filter"))
        if body.get("offset") is not None:
            start = _checked(body["offset"])
            found = [key for key in found if (isinstance(key, str), key) >= (isinstance(start, str), start)]
        page = [
            {"id": key, "payload": kept.points[key][1] if body.get("with_payload") else None} for key in found[:limit]
        ]
        return {"points": page, "next_page_offset": found[limit] if len(found) > limit else None}

    async def _query(self, request: web.Request) -> Any:
        kept = self._found(request)
        body = await self._body(request, "query", "filter", "limit", "with_payload", "with_vector")
        asked = body.get("query")
        asked = asked["nearest"] if isinstance(asked, dict) and asked.keys() == {"nearest"} else asked
        if not isinstance(asked, list) or len(asked) != kept.size:
            raise Refusal(400, f"Wrong input: Vector dimension error: expected dim: {kept.size}")
        scored = [
            (sum(a * b for a, b in zip(asked, kept.points[key][0], strict=True)), key)
            for key in self._matching(kept, body.get("filter"))
        ]
        scored.sort(key=lambda each: -each[0])
        return {
            "points": [{"id": key, "version": 0, "score": score} for score, key in scored[: body.get("limit") or 10]]
        }

    def _matching(self, kept: Kept, wanted: Any) -> list[Key]:
        if wanted is None:
            return kept.in_order()
        if not isinstance(wanted, dict) or {key for key, value in wanted.items() if value is not None} - {"must"}:
            raise Refusal(400, "Format error in JSON body: the stand-in knows filters of `must` alone")
        conditions = [_condition(each, kept) for each in wanted.get("must") or []]
        return [key for key in kept.in_order() if all(fits(kept.points[key][1]) for fits in conditions)]

    async def _apply(self, request: web.Request, write: Callable[[], None]) -> None:
        """At once for a request that waits, and later for one that does not."""
        if request.query.get("wait") == "true":
            write()
        else:
            asyncio.get_running_loop().call_later(0.3, write)

    def _done(self) -> dict[str, Any]:
        self._operation += 1
        return {"operation_id": self._operation, "status": "completed"}


def _checked(key: Any) -> Key:
    if isinstance(key, int) and not isinstance(key, bool) and 0 <= key < 2**64:
        return key
    try:
        return str(uuid.UUID(key))
    except (ValueError, TypeError, AttributeError):
        raise Refusal(
            400,
            f"Format error in JSON body: value {key} is not a valid point ID, valid values are an unsigned integer or a UUID",
        ) from None


def _condition(given: Any, kept: Kept) -> Callable[[dict[str, Any]], bool]:
    """A field is one of some values; only by a field that has an index, as strict servers want it."""
    present = {key: value for key, value in given.items() if value is not None} if isinstance(given, dict) else {}
    if present.keys() != {"key", "match"} or present["match"].keys() != {"any"}:
        raise Refusal(400, "Format error in JSON body: the stand-in knows conditions of `match.any` alone")
    name, values = present["key"], present["match"]["any"]
    if name not in kept.indexed:
        raise Refusal(400, f"Bad request: Index required but not found for `{name}`")
    if not isinstance(values, list) or not all(isinstance(value, VALUES[kept.indexed[name]]) for value in values):
        raise Refusal(400, "Format error in JSON body: wrong values of `match.any`")
    among = set(values)
    return lambda payload: payload.get(name) in among


@asynccontextmanager
async def standing_in(key: str | None = None) -> AsyncIterator[StandIn]:
    server = StandIn(key)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


class RealServer:
    """A server that runs elsewhere; the collections of a test have names of their own, and go with it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.prefix = f"test-{uuid.uuid4().hex[:8]}-"

    async def count(self, name: str) -> int:
        from qdrant_client import AsyncQdrantClient

        client = AsyncQdrantClient(url=self.url, check_compatibility=False)
        try:
            return (await client.count(name, exact=True)).count
        finally:
            await client.close()

    async def clear(self) -> None:
        from qdrant_client import AsyncQdrantClient

        client = AsyncQdrantClient(url=self.url, check_compatibility=False)
        try:
            for each in (await client.get_collections()).collections:
                if each.name.startswith(self.prefix):
                    await client.delete_collection(each.name)
        finally:
            await client.close()


@pytest.fixture(params=["stand-in", "server"])
async def qdrant_server(request: pytest.FixtureRequest) -> AsyncIterator[StandIn | RealServer]:
    """Both, for what must be true of any Qdrant."""
    if request.param == "stand-in":
        async with standing_in() as server:
            yield server
        return
    if REAL not in os.environ:
        pytest.skip(f"{REAL} is not set: there is no real Qdrant to try it with")
    real = RealServer(os.environ[REAL])
    try:
        yield real
    finally:
        await real.clear()


@pytest.fixture
async def stand_in() -> AsyncIterator[StandIn]:
    """For what no real server does on command."""
    async with standing_in() as server:
        yield server
