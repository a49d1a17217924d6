"""Collections: a knowledge base, an engagement, a workspace. Each has a name, settings, and a fairness key of its own.

A change of the settings holds for documents that are prepared from then on. The search language cannot be changed while there
are documents, which were indexed with it. Another embedding model or index is built next to the present one, and replaces it
when it is complete (migration.py).
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from typing import Annotated, Any, NoReturn

from asyncpg import Record
from pydantic import Field, ValidationError, with_config

from penstock.database import Session, statements
from penstock.documents.deletion.delete import delete_page, restore_page
from penstock.documents.migration import check_index, choose_index, choose_model, lock_models
from penstock.documents.names import check_collection_name, no_such_collection
from penstock.engine import Penstock
from penstock.errors import BadSetting, BadValue, DatabaseUnsuitable, NameTaken, NotFound, WrongState
from penstock.models import open_model
from penstock.settings import CollectionSettings

sql = statements(__file__)

DEFAULT = "default"  # the collection of documents that name none
PAGE = 100  # documents that are deleted or restored together
WITH_COLLECTION = "its collection was deleted"  # the reason, by which a restore finds them


@with_config(json_schema_serialization_defaults_required=True)
@dataclass(frozen=True, slots=True)
class Collection:
    """A collection."""

    id: int
    tenant: Annotated[str, Field(exclude=True)]
    name: str
    model: str
    chunk_size: int
    chunk_overlap: int
    ocr_language: str
    search_language: str
    created_at: datetime
    documents: Annotated[int, Field(description="Documents that search sees.")] = 0
    chunks: Annotated[int, Field(description="Chunks that search sees.")] = 0
    next_model: Annotated[str | None, Field(description="The model that it is changing to; null when it is not.")] = (
        None
    )
    next_job: Annotated[int | None, Field(exclude=True)] = None  # makes the vectors of the next model
    reembedded: Annotated[int | None, Field(description="Chunks that have vectors of the next model.")] = None
    to_reembed: Annotated[int | None, Field(description="Chunks in all, while there is a next model.")] = None
    index: Annotated[str, Field(description="Where its vectors are searched: postgres or qdrant.")] = "postgres"
    has_points: Annotated[bool, Field(exclude=True)] = False  # there may be some of it in Qdrant
    next_index: Annotated[str | None, Field(description="The index that it is changing to; null when it is not.")] = (
        None
    )
    index_job: Annotated[int | None, Field(exclude=True)] = None  # builds the next index
    reindexed: Annotated[int | None, Field(description="Chunks that are in the next index.")] = None
    to_reindex: Annotated[int | None, Field(description="Chunks in all, while there is a next index.")] = None
    is_stuck: Annotated[bool, Field(exclude=True)] = False  # the job is dead, or was cancelled
    trouble: Annotated[
        str | None, Field(description="Why the change to another model or index makes no progress, if so.")
    ] = None

    def answer(self) -> dict[str, Any]:
        return asdict(self) | {"created_at": self.created_at.isoformat()}


@dataclass(frozen=True, slots=True)
class CollectionDeletion:
    """The result of the deletion of a collection."""

    deleted: Annotated[int, Field(description="Documents that were deleted with it.")]
    restorable_until: Annotated[datetime | None, Field(description="null: the deletion cannot be undone.")]


async def create_collection(app: Penstock, name: str, *, tenant: str = "default", **settings: Any) -> Collection:
    """Create a collection; NameTaken if one of this name exists."""
    name = check_collection_name(name)
    chosen = _check_settings(app.settings.collections, settings)
    await _check_model(app, chosen.model)
    check_index(app, chosen.index)
    row = await app.database.pool.repeat(sql.create_collection.first, tenant=tenant, name=name, **chosen.model_dump())
    if row is not None:
        return _read(row)
    existing = await find_collection(app, name, tenant=tenant)
    raise NameTaken(f"Collection {name} exists already (id {existing.id}).", existing=existing.id)


async def ensure_collection(app: Penstock, name: str = DEFAULT, *, tenant: str = "default") -> Collection:
    """The collection of this name, created if it does not exist."""
    try:
        return await find_collection(app, name, tenant=tenant)
    except NotFound:
        try:
            return await create_collection(app, name, tenant=tenant)
        except NameTaken:  # made concurrently
            return await find_collection(app, name, tenant=tenant)


async def find_collection(app: Penstock, name: str, *, tenant: str = "default") -> Collection:
    name = check_collection_name(name)
    row = await app.database.pool.repeat(sql.find_collection.first, tenant=tenant, name=name)
    if row is None:
        raise no_such_collection(name)
    return _read(row)


async def find_collection_by_id(session: Session, collection: int) -> Collection | None:
    """A collection, also a deleted one: something of it may be left."""
    row = await sql.find_collection_by_id.first(session, collection=collection)
    return None if row is None else _read(row)


async def list_collections(
    app: Penstock, *, after: str = "", most: int = 100, tenant: str = "default"
) -> list[Collection]:
    """By name; `after` is the last one that the caller has seen."""
    rows = await app.database.pool.repeat(sql.list_collections, tenant=tenant, after=after, most=most)
    return [_read(row) for row in rows]


async def change_collection(
    app: Penstock, name: str, *, new_name: str | None = None, tenant: str = "default", **settings: Any
) -> Collection:
    """Rename a collection, or change its settings for what is prepared from now on.

    Another model or index for a collection with documents is built by a job, and is used when it is complete. Choosing the
    present one again ends such a change.
    """
    wanted = {key: value for key, value in settings.items() if value is not None}
    found = await find_collection(app, name, tenant=tenant)
    _check_settings(_settings_of(asdict(found)), wanted)
    model = wanted.pop("model", None)
    if model not in (None, found.model):
        await _check_model(app, model)
    index = wanted.pop("index", None)
    if index is not None:
        check_index(app, index)
    idle: list[int | None] = []
    async with app.database.pool.transaction() as tx:
        if model is not None or index is not None:
            await lock_models(tx, found.id)
        row = await sql.lock_collection.first(tx, tenant=tenant, name=found.name)
        if row is None or row["id"] != found.id:
            raise no_such_collection(name)
        chosen = _check_settings(_settings_of(row), wanted)
        if chosen.search_language != row["search_language"] and await sql.has_documents.value(tx, id=row["id"]):
            raise WrongState(
                f"The search language of {name} cannot be changed while it has documents, which are indexed with the present "
                "one: create another collection, and add the documents there."
            )
        renamed = row["name"] if new_name is None else check_collection_name(new_name)
        await _refuse_taken(tx, tenant, renamed, row["id"])
        await sql.change_collection.run(tx, id=row["id"], name=renamed, **chosen.model_dump(exclude={"model", "index"}))
        if model is not None:
            idle.append(await choose_model(tx, app, row, model))
        if index is not None:
            idle.append(await choose_index(tx, app, row, index))
    for job in idle:  # not in the transaction: jobs are locked before all else
        if job is not None:
            await app.cancel(job, reason=f"another model or index was chosen for collection {renamed}")
    return await find_collection(app, renamed, tenant=tenant)


async def delete_collection(
    app: Penstock, name: str, *, by: str = "", now: bool = False, tenant: str = "default"
) -> CollectionDeletion:
    """Delete a collection with all its documents; it is hidden from the first moment on.

    With `now` nothing of it can be restored. That also ends the restore window of one that was deleted before.
    """
    name = check_collection_name(name)
    grace = None if now else app.settings.documents.restore_within
    until = None
    async with app.database.pool.transaction() as tx:
        # The lock waits for intakes that are under way; later ones see that it is deleted.
        row = await sql.lock_collection.first(tx, tenant=tenant, name=name)
        if row is not None:
            until = await sql.mark_deleted.value(tx, id=row["id"], grace=grace)
        elif now:
            row = await sql.lock_deleted.first(tx, tenant=tenant, name=name)
        if row is None or not row.get("in_time", True):
            raise no_such_collection(name)
        if now:
            await sql.end_restore_window.run(tx, id=row["id"])
    deleted, pool = 0, app.database.pool
    while found := await pool.repeat(partial(sql.undeleted, id=row["id"], most=PAGE)):
        deleted += await delete_page(app.database, [each["id"] for each in found], WITH_COLLECTION, by=by, now=now)
    while now and (found := await pool.repeat(partial(sql.in_restore_window, id=row["id"], most=PAGE))):
        await delete_page(app.database, [each["document_id"] for each in found], WITH_COLLECTION, by=by, now=True)
    return CollectionDeletion(deleted, until)


async def restore_collection(app: Penstock, name: str, *, tenant: str = "default") -> Collection:
    """Bring back a deleted collection and the documents that were deleted with it. Can be repeated if it was interrupted."""
    name = check_collection_name(name)
    async with app.database.pool.transaction() as tx:
        deleted = await sql.lock_deleted.first(tx, tenant=tenant, name=name)
        present = await sql.find_collection.first(tx, tenant=tenant, name=name)
        if present is not None:
            collection = present["id"]
            if not await _list_deleted_with(tx, collection):
                _refuse_restore(name, other=deleted is not None and deleted["in_time"], id=collection)
        elif deleted is None:
            raise no_such_collection(name)
        elif not deleted["in_time"]:
            raise WrongState(f"Collection {name} cannot be restored any more: create it, and add its documents again.")
        else:
            collection = deleted["id"]
            await sql.mark_restored.run(tx, id=collection)
    while found := await app.database.pool.repeat(partial(_list_deleted_with, collection=collection)):
        await restore_page(app, found, tenant=tenant)
    return await find_collection(app, name, tenant=tenant)


def _refuse_restore(name: str, *, other: bool, id: int) -> NoReturn:  # noqa: A002
    if other:
        raise NameTaken(
            f"There is another collection {name} now: rename that one, and restore the deleted one then.", existing=id
        )
    raise WrongState(f"Collection {name} is not deleted: there is nothing to restore.")


async def _list_deleted_with(session: Session, collection: int) -> list[int]:
    rows = await sql.deleted_with_collection(session, id=collection, reason=WITH_COLLECTION, most=PAGE)
    return [row["id"] for row in rows]


async def _refuse_taken(tx: Session, tenant: str, name: str, own: int) -> None:
    other = await sql.find_collection.first(tx, tenant=tenant, name=name)
    if other is not None and other["id"] != own:
        raise NameTaken(f"Collection {name} exists already (id {other['id']}).", existing=other["id"])


def _check_settings(present: CollectionSettings, wanted: dict[str, Any]) -> CollectionSettings:
    unknown = wanted.keys() - CollectionSettings.model_fields.keys()
    if unknown:
        raise BadValue(
            f"A collection has no setting {min(unknown)}: use one of {', '.join(CollectionSettings.model_fields)}."
        )
    given = {key: value for key, value in wanted.items() if value is not None}
    try:
        chosen = CollectionSettings(**(present.model_dump() | given))
    except ValidationError as error:
        wrong = error.errors()[0]
        raise BadValue(f"{wrong['loc'][0]} of a collection: {wrong['msg']}.") from None
    if 2 * chosen.chunk_overlap > chosen.chunk_size:
        raise BadValue(
            f"A chunk_overlap of {chosen.chunk_overlap} is more than half of the chunk_size of {chosen.chunk_size}: lower it."
        )
    return chosen


def _settings_of(row: Mapping[str, Any] | Record) -> CollectionSettings:
    return CollectionSettings(**{key: row[key] for key in CollectionSettings.model_fields})


async def _check_model(app: Penstock, name: str) -> None:
    from penstock.search import check_dimensions

    try:
        await check_dimensions(app.database, name, open_model(name, app.settings).dimensions)
    except (BadSetting, DatabaseUnsuitable) as error:
        raise BadValue(str(error)) from None


def _read(row: Record) -> Collection:
    facts = dict(row)
    state, progress, error = (facts.pop(key, None) for key in ("job_state", "job_progress", "job_error"))
    if facts.get("next_model") is not None:
        facts["to_reembed"] = facts["chunks"]
        facts["reembedded"] = min(int((json.loads(progress or "null") or {}).get("done") or 0), facts["chunks"])
        facts["is_stuck"] = state in (None, "dead")
        facts["trouble"] = _tell_trouble(facts["next_job"], state, json.loads(error or "null") or {}, "model")
    if facts.get("next_index") is not None:
        facts["to_reindex"] = facts["chunks"]
        facts["reindexed"] = min(int((json.loads(progress or "null") or {}).get("done") or 0), facts["chunks"])
        facts["is_stuck"] = state in (None, "dead")
        facts["trouble"] = _tell_trouble(facts["index_job"], state, json.loads(error or "null") or {}, "index")
    return Collection(**facts)


def _tell_trouble(job: int | None, state: str | None, error: Mapping[str, Any], what: str) -> str | None:
    reason = str(error.get("message", "")).rstrip(". ")
    if state is None:
        return f"Job {job} was cancelled: choose the {what} again to go on, or the present one to keep it."
    if state == "dead":
        return f"Job {job} is dead: {reason}. Fix the cause and choose the {what} again, or the present one to keep it."
    return f"Job {job} is retried after: {reason}." if reason else None
