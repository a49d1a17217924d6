"""The client of Qdrant, for the vectors of chunks.

    qdrant = Qdrant(settings.qdrant)
    await qdrant.prepare("static", 256)
    await qdrant.upsert("static", [Point(version=7, ordinal=0, collection=1, tenant="default", vector=[…])])
    assert await qdrant.count("static", versions=[7]) == 1

Qdrant has one collection for each embedding model. A point's id is the chunk's key (bm25/postings.py), so that writing it again
changes nothing; its payload has its collection, version and tenant. Every call has a deadline. A server that cannot be reached,
or refuses the key, raises `Unavailable`: its breaker counts it, and no job is charged. A request that it rejects raises
`Permanent`. The client is loaded with the first call; the key is only in the header of its requests.
"""

import asyncio
import json
import warnings
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from penstock.errors import BadSetting, JobFailure, Permanent, RateLimited, Resting, Transient, Unavailable
from penstock.search.bm25.postings import chunk_key
from penstock.settings import QdrantSettings
from penstock.telemetry import hide

if TYPE_CHECKING:
    from qdrant_client import AsyncQdrantClient, models

T = TypeVar("T")

UNCONFIGURED = 30.0  # seconds until the job is tried again, perhaps by a worker that has one
IN_TROUBLE = (408, 502, 503, 504)  # not the fault of a document; 500 may be its fault, and is charged
MESSAGE_MAX = 300  # characters of an error message
INDEXED = ("collection", "version")  # fields of the payload by which points are filtered


class Point(NamedTuple):
    """A chunk's vector with its collection, version and tenant."""

    version: int
    ordinal: int
    collection: int
    tenant: str
    vector: list[float]

    @property
    def key(self) -> int:
        return chunk_key(self.version, self.ordinal)

    @property
    def payload(self) -> dict[str, Any]:
        return {
            "collection": self.collection,
            "version": self.version,
            "ordinal": self.ordinal,
            "tenant": self.tenant,
        }


@dataclass(frozen=True, slots=True)
class StoredPoint:
    """A point as Qdrant has it. The id of a foreign one may be a text."""

    key: int | str
    payload: dict[str, Any]


class CollectionMissing(Transient):
    """The collection does not exist in Qdrant."""


class Qdrant:
    """One client per process, opened with the first call; `aclose` ends it."""

    def __init__(self, settings: QdrantSettings) -> None:
        if find_spec("qdrant_client") is None:
            raise BadSetting("qdrant.url is set, but the client is not installed: install penstock[qdrant].")
        self.settings = settings
        self._client: AsyncQdrantClient | None = None
        self._prepared: set[str] = set()
        if settings.key is not None:
            hide(settings.key.get_secret_value())

    def name_of(self, model: str) -> str:
        """The name of a model's collection in Qdrant."""
        return f"{self.settings.prefix}{model}"

    # -- writing ------------------------------------------------------------------------------------------------------

    async def prepare(self, model: str, dimensions: int) -> None:
        """Make the collection of a model, unless it exists. Raises Permanent when it is for vectors of another length."""
        if model in self._prepared:
            return
        from qdrant_client import models

        name = self.name_of(model)
        if not await self._call(lambda client: client.collection_exists(name)):
            vectors = models.VectorParams(size=dimensions, distance=models.Distance.DOT)
            try:
                await self._call(lambda client: client.create_collection(name, vectors_config=vectors))
            except Permanent:  # another client was faster, or it cannot be made: the next call shows which
                if not await self._call(lambda client: client.collection_exists(name)):
                    raise
        found = await self._call(lambda client: client.get_collection(name))
        vectors_there = found.config.params.vectors
        size = getattr(vectors_there, "size", None)
        if size != dimensions:
            raise Permanent(
                f"The collection {name} of Qdrant is for vectors of {size} dimensions, but the model {model} returns "
                f"{dimensions}: choose another qdrant.prefix, or remove that collection."
            )
        for field in INDEXED:  # idempotent
            await self._call(
                lambda client, field=field: client.create_payload_index(  # type: ignore[misc]
                    name, field_name=field, field_schema=models.PayloadSchemaType.INTEGER, wait=True
                )
            )
        self._prepared.add(model)

    async def upsert(self, model: str, points: Sequence[Point]) -> None:
        """Write points, in batches; existing ones are overwritten."""
        from qdrant_client import models

        name = self.name_of(model)
        for start in range(0, len(points), self.settings.batch):
            batch = [
                models.PointStruct(id=point.key, vector=point.vector, payload=point.payload)
                for point in points[start : start + self.settings.batch]
            ]
            try:
                await self._call(lambda client, batch=batch: client.upsert(name, points=batch, wait=True))  # type: ignore[misc]
            except CollectionMissing:
                self._prepared.discard(model)
                raise

    async def delete_versions(self, model: str, versions: Sequence[int]) -> None:
        await self._delete(model, self._filter(versions=versions))

    async def delete_collection(self, model: str, collection: int) -> None:
        await self._delete(model, self._filter(collections=[collection]))

    async def delete_points(self, model: str, keys: Sequence[int | str]) -> None:
        from qdrant_client import models

        for start in range(0, len(keys), self.settings.batch):
            await self._delete(model, models.PointIdsList(points=list(keys[start : start + self.settings.batch])))

    async def _delete(self, model: str, which: "models.Filter | models.PointIdsList") -> None:
        from qdrant_client import models

        selector = models.FilterSelector(filter=which) if isinstance(which, models.Filter) else which
        name = self.name_of(model)
        try:
            await self._call(lambda client: client.delete(name, points_selector=selector, wait=True))
        except CollectionMissing:
            return

    # -- reading ------------------------------------------------------------------------------------------------------

    async def count(self, model: str, *, versions: Sequence[int] | None = None, collection: int | None = None) -> int:
        """The exact number of points."""
        which = self._filter(versions=versions, collections=None if collection is None else [collection])
        name = self.name_of(model)
        try:
            found = await self._call(lambda client: client.count(name, count_filter=which, exact=True))
        except CollectionMissing:
            return 0
        return found.count

    async def scroll(
        self, model: str, *, start: int | str, most: int, collection: int | None = None
    ) -> tuple[list[StoredPoint], int | str | None]:
        """Points in the order of their ids from `start` on, and the id at which the next page begins, if there is one."""
        which = self._filter(collections=[collection]) if collection is not None else None
        name = self.name_of(model)
        try:
            rows, following = await self._call(
                lambda client: client.scroll(
                    name, scroll_filter=which, offset=start, limit=most, with_payload=True, with_vectors=False
                )
            )
        except CollectionMissing:
            return [], None
        return [
            StoredPoint(row.id if isinstance(row.id, int) else str(row.id), dict(row.payload or {})) for row in rows
        ], (following if following is None or isinstance(following, int) else str(following))

    async def nearest(
        self, model: str, vector: list[float], *, collections: Sequence[int], most: int
    ) -> list[tuple[int, float]]:
        """The nearest points of some collections, the best first: id and cosine."""
        which, name = self._filter(collections=collections), self.name_of(model)
        seconds = self.settings.search_timeout.total_seconds()
        try:
            found = await self._call(
                lambda client: client.query_points(
                    name, query=vector, query_filter=which, limit=most, with_payload=False, with_vectors=False
                ),
                seconds,
            )
        except CollectionMissing:
            return []
        return [(point.id, point.score) for point in found.points if isinstance(point.id, int)]

    # -- the wire -----------------------------------------------------------------------------------------------------

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.close()
            self._client = None

    def _filter(
        self, *, versions: Sequence[int] | None = None, collections: Sequence[int] | None = None
    ) -> "models.Filter":
        from qdrant_client import models

        wanted = {"version": versions, "collection": collections}
        return models.Filter(
            must=[
                models.FieldCondition(key=field, match=models.MatchAny(any=list(values)))
                for field, values in wanted.items()
                if values is not None
            ]
        )

    def _opened(self) -> "AsyncQdrantClient":
        from qdrant_client import AsyncQdrantClient

        if self._client is None:
            with warnings.catch_warnings():  # about a key sent over http: the operator has set both
                warnings.simplefilter("ignore")
                self._client = AsyncQdrantClient(
                    url=self.settings.url,
                    api_key=self.settings.key.get_secret_value() if self.settings.key else None,
                    prefer_grpc=False,
                    timeout=max(1, round(self.settings.timeout.total_seconds())),
                    check_compatibility=False,  # the check would block the event loop
                )
        return self._client

    async def _call(self, ask: "Callable[[AsyncQdrantClient], Awaitable[T]]", seconds: float | None = None) -> T:
        from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
        from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

        patience = seconds or self.settings.timeout.total_seconds()
        try:
            async with asyncio.timeout(patience):
                return await ask(self._opened())
        except TimeoutError:
            raise self._away(f"did not answer within {patience:g} s") from None
        except ResourceExhaustedResponse as error:
            raise RateLimited("Qdrant limits the rate of requests.", retry_after=float(error.retry_after_s)) from None
        except UnexpectedResponse as error:
            raise self._failure_of(error.status_code or 0, error.content) from None
        except ResponseHandlingException as error:
            if isinstance(error.source, ValueError):  # of pydantic
                raise Transient("Qdrant sent an answer that its client does not understand.") from None
            raise self._away(f"cannot be reached ({type(error.source).__name__})") from None
        except json.JSONDecodeError:
            raise Transient("Qdrant sent an answer that is incomplete, or is not JSON.") from None

    def _away(self, what: str) -> Unavailable:
        return Unavailable(f"Qdrant at {self.settings.url} {what}.")

    def _failure_of(self, status: int, content: bytes) -> JobFailure:
        said = _message(content)
        if status == 404:
            return CollectionMissing(f"Qdrant does not have the collection{said}. It is made again.")
        if status in (401, 403):
            return self._away(f"refuses the key ({status}): check qdrant.key")
        if status == 429:
            return RateLimited("Qdrant limits the rate of requests.")
        if status in IN_TROUBLE:
            return self._away(f"is unavailable ({status}{said})")
        if status >= 500:
            return Transient(f"Qdrant failed ({status}{said}).")
        return Permanent(f"Qdrant rejects the request ({status}{said}).")


def open_qdrant(settings: QdrantSettings) -> Qdrant | None:
    """A client, or None if `qdrant.url` is not set."""
    return Qdrant(settings) if settings.url else None


def no_qdrant() -> RateLimited:
    """The failure of a job that needs Qdrant where none is configured."""
    return Resting("Qdrant is not configured here: set qdrant.url.", retry_after=UNCONFIGURED)


def _message(content: bytes) -> str:
    """The error message of an answer."""
    try:
        error = json.loads(content)["status"]["error"]
    except (ValueError, KeyError, TypeError):
        return ""
    return f": {str(error)[:MESSAGE_MAX].rstrip('. ')}"
