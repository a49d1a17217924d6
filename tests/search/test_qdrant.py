"""The client of Qdrant: points by id, counted, in order; and its failures as those of the engine."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from penstock.errors import Permanent, Transient, Unavailable
from penstock.search.bm25.postings import chunk_key
from penstock.search.qdrant.client import CollectionMissing, Point, Qdrant
from penstock.settings.storage import QdrantSettings
from tests.search.qdrant_stand_in import RealServer, StandIn, qdrant_server, stand_in, standing_in

__all__ = ["qdrant_server", "stand_in"]


@asynccontextmanager
async def opened(server: StandIn | RealServer, **settings: Any) -> AsyncIterator[Qdrant]:
    client = Qdrant(QdrantSettings(**({"url": server.url, "prefix": server.prefix, "timeout": "5s"} | settings)))
    try:
        yield client
    finally:
        await client.aclose()


def point(version: int, ordinal: int, *vector: float, collection: int = 1) -> Point:
    return Point(version, ordinal, collection, "default", list(vector) or [1.0, 0.0, 0.0])


async def test_points_are_written_counted_listed_and_removed(qdrant_server: StandIn | RealServer) -> None:
    async with opened(qdrant_server, batch=2) as qdrant:
        assert await qdrant.count("static", versions=[7]) == 0, "also before there is a collection"
        assert await qdrant.scroll("static", start=0, most=10) == ([], None)
        await qdrant.prepare("static", 3)
        points = [point(7, 0), point(7, 1), point(7, 2), point(8, 0, collection=2), point(6, 0)]
        await qdrant.upsert("static", points)
        await qdrant.upsert("static", points[:2])  # idempotent
        assert await qdrant.count("static", versions=[7]) == 3
        assert await qdrant.count("static", versions=[6, 8]) == 2
        assert await qdrant.count("static", collection=1) == 4

        page, following = await qdrant.scroll("static", start=chunk_key(7, 0), most=3)
        assert [seen.key for seen in page] == [chunk_key(7, 0), chunk_key(7, 1), chunk_key(7, 2)]
        assert page[1].payload == {"collection": 1, "version": 7, "ordinal": 1, "tenant": "default"}
        assert following == chunk_key(8, 0)
        assert (await qdrant.scroll("static", start=following, most=3))[1] is None
        only, _ = await qdrant.scroll("static", start=0, most=10, collection=2)
        assert [seen.key for seen in only] == [chunk_key(8, 0)]

        await qdrant.delete_points("static", [chunk_key(7, 2)])
        await qdrant.delete_versions("static", [6])
        assert await qdrant.count("static", collection=1) == 2
        await qdrant.delete_collection("static", 1)
        assert await qdrant.count("static", collection=1) == 0
        assert await qdrant.count("static", collection=2) == 1


async def test_the_nearest_are_of_the_collections_that_are_asked(qdrant_server: StandIn | RealServer) -> None:
    async with opened(qdrant_server) as qdrant:
        assert await qdrant.nearest("static", [1.0, 0.0, 0.0], collections=[1], most=5) == []
        await qdrant.prepare("static", 3)
        near, far, foreign = (
            point(1, 0, 1.0, 0.0, 0.0),
            point(1, 1, 0.6, 0.8, 0.0),
            point(2, 0, 1.0, 0.0, 0.0, collection=2),
        )
        await qdrant.upsert("static", [far, near, foreign])
        found = await qdrant.nearest("static", [1.0, 0.0, 0.0], collections=[1], most=5)
        assert [key for key, _ in found] == [near.key, far.key]
        assert [score for _, score in found] == pytest.approx([1.0, 0.6], abs=1e-3)
        assert len(await qdrant.nearest("static", [1.0, 0.0, 0.0], collections=[1, 2], most=5)) == 3


async def test_what_it_cannot_keep_is_permanent(qdrant_server: StandIn | RealServer) -> None:
    async with opened(qdrant_server) as qdrant:
        await qdrant.prepare("static", 3)
        with pytest.raises(Permanent, match="rejects the request"):
            await qdrant.upsert("static", [point(1, 0, 1.0, 0.0)])
    async with opened(qdrant_server) as another:
        with pytest.raises(Permanent, match="for vectors of 3 dimensions, but the model static returns 4"):
            await another.prepare("static", 4)


async def test_a_collection_that_was_dropped_is_made_again(stand_in: StandIn) -> None:
    async with opened(stand_in) as qdrant:
        await qdrant.prepare("static", 3)
        stand_in.kept.clear()
        with pytest.raises(CollectionMissing):
            await qdrant.upsert("static", [point(1, 0)])
        await qdrant.prepare("static", 3)
        await qdrant.upsert("static", [point(1, 0)])
        assert await stand_in.count() == 1


async def test_who_cannot_be_reached_is_away(stand_in: StandIn) -> None:
    async with opened(stand_in, timeout="1s") as qdrant:
        await qdrant.prepare("static", 3)
        stand_in.mood = "busy"
        with pytest.raises(Unavailable, match="is unavailable"):
            await qdrant.count("static")
        stand_in.mood = "slow"
        with pytest.raises(Unavailable, match="did not answer within 1 s"):
            await qdrant.count("static")
        stand_in.mood = "500"
        with pytest.raises(Transient, match="RocksDB"):
            await qdrant.count("static")
        stand_in.mood = "well"
        await stand_in.stop()
        with pytest.raises(Unavailable, match="cannot be reached"):
            await qdrant.count("static")
        await stand_in.start()
        assert await qdrant.count("static") == 0


async def test_a_key_is_sent_and_never_said() -> None:
    async with standing_in(key="cAnArY-key") as server:
        async with opened(server, key="cAnArY-key") as qdrant:
            await qdrant.prepare("static", 3)
        async with opened(server, key="cAnArY-other") as qdrant:
            with pytest.raises(Unavailable, match=r"check qdrant\.key") as caught:
                await qdrant.count("static")
        assert "cAnArY" not in str(caught.value)
