"""The index is always what a rebuild from the live texts would be."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.errors import WrongState
from penstock.search import CollectionRef, fold
from penstock.search.entries import BUCKETS
from penstock.search.postings import sql, take_turn
from penstock.search.words import vocabulary
from tests.search.conftest import Library
from tests.search.rebuild import State, rank, read_index, rebuild

WORDS = ("pump", "pumps", "valve", "turbine", "water", "gates", "naïve", "東京都")
QUESTIONS = ("pump", "valves water", "turbines and gates", "naive 東京", "pump pumps water turbine")
texts = st.lists(st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join), min_size=1, max_size=4)
steps = st.one_of(
    st.tuples(st.just("add"), texts),
    st.tuples(st.just("replace"), texts),
    st.tuples(st.just("stage"), texts),
    st.tuples(st.sampled_from(["delete", "clear", "fold", "look"]), st.just([""])),
)
actors = st.lists(st.lists(steps, min_size=1, max_size=6), min_size=1, max_size=4)
numbers = itertools.count()

REMOVABLE = """
select hidden.version_id from penstock.hidden_versions as hidden
where hidden.collection_id = $1
  and not exists (select from penstock.documents where version_id = hidden.version_id and state <> 'deleted')
"""
LEFT = """
select count(*)::int from (
  select version_id from penstock.chunks union all select version_id from penstock.postings
  union all select version_id from penstock.vectors_static union all select version_id from penstock.folded_vectors_static
  union all select version_id from penstock.indexed_batches union all select version_id from penstock.hidden_versions
) as rows
where version_id = $1
"""
WAITING = "select from pg_locks where locktype = 'advisory' and not granted"


class Actor:
    """One of several who work on a collection at the same time."""

    def __init__(self, library: Library, name: str, documents: list[int]) -> None:
        self.library = library
        self.name = name
        self.documents = documents  # shared by all actors; who takes one out owns it until it is put back

    async def act(self, plan: Sequence[tuple[str, Sequence[str]]]) -> None:
        for step, given_texts in plan:
            await getattr(self, step)(given_texts)

    async def add(self, given_texts: Sequence[str]) -> None:
        name = f"document {next(numbers)}"
        self.documents.append(await self.library.add(name, given_texts, collection=self.name))

    async def replace(self, given_texts: Sequence[str]) -> None:
        if self.documents:
            document = self.documents.pop(0)
            await self.library.replace(document, given_texts, collection=self.name)
            self.documents.append(document)

    async def stage(self, given_texts: Sequence[str]) -> None:
        """A version whose job dies before the end: its rows stay, and nobody must see them."""
        document = await self.library.accept(f"document {next(numbers)}", collection=self.name)
        version = await self.library.begin_version(document)
        entry = await self.library.entry(version, given_texts, collection=self.name)
        async with self.library.database.pool.transaction() as tx:
            await self.library.index.stage(tx, entry)

    async def delete(self, _: Sequence[str]) -> None:
        if self.documents:
            await self.library.delete(self.documents.pop(0))

    async def clear(self, _: Sequence[str]) -> None:
        for row in await self.library.run(REMOVABLE, self.library.collections[self.name].id):
            await self.library.clear(row["version_id"], most=3)

    async def fold(self, _: Sequence[str]) -> None:
        await fold(self.library.database, self.library.collections[self.name].id, "static")

    async def look(self, _: Sequence[str]) -> None:
        await compare(self.library, self.library.collections[self.name])


async def compare(library: Library, collection: CollectionRef) -> State:
    """In one snapshot, at any moment."""
    async with library.database.pool.transaction() as tx:
        await tx.execute("set transaction isolation level repeatable read, read only")
        expected = await rebuild(tx, collection)
        found = await read_index(tx, collection)
    assert found == expected
    return expected


async def check_search(library: Library, name: str, state: State) -> None:
    words = vocabulary("english")
    for question in QUESTIONS:
        expected = rank(state, words.ask(question))
        found = await library.search(question, name, mode="words", k=100)
        assert [(hit.version << 21 | hit.chunk) for hit in found.hits] == [key for key, _ in expected][:100]
        assert [hit.score for hit in found.hits] == pytest.approx([score for _, score in expected][:100])


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(plans=actors)
async def test_counts_and_results_equal_a_rebuild(library: Library, plans: list[list[tuple[str, list[str]]]]) -> None:
    name = f"collection {next(numbers)}"
    collection = await library.collection(name)
    documents: list[int] = []

    await asyncio.gather(*(Actor(library, name, documents).act(plan) for plan in plans))

    state = await compare(library, collection)
    await check_search(library, name, state)
    tidy = Actor(library, name, documents)
    await tidy.fold([])
    await tidy.clear([])
    assert await compare(library, collection) == state, "tidying changes nothing"
    await check_search(library, name, state)
    for document in documents:
        await library.delete(document)
    await tidy.clear([])
    assert (await compare(library, collection)).terms == {}


async def test_nothing_is_left_of_a_cleared_version(library: Library) -> None:
    document = await library.add("a", ["pump water", "valve"])
    [row] = await library.run("select live_id from penstock.documents where id = $1", document)
    await fold(library.database, library.collections["main"].id, "static")
    await library.add("b", ["pump gate"])
    await library.delete(document)

    assert await library.clear(row["live_id"], most=2) > 0

    assert (await library.run(LEFT, row["live_id"]))[0][0] == 0
    terms = {each["term"] for each in await library.run("select term from penstock.folded_postings")}
    assert terms == set(), "no long row is left empty"
    assert await library.names("pump", mode="words") == ["b"]


async def test_a_live_version_is_not_cleared(library: Library) -> None:
    version = await library.replace(await library.accept("a"), ["pump"])

    with pytest.raises(WrongState, match="search sees"):
        await library.clear(version)

    assert await library.names("pump") == ["a"]


async def test_a_version_is_staged_in_batches_and_seen_at_once(library: Library) -> None:
    document = await library.accept("a")
    version = await library.begin_version(document)
    for first in (0, 2):
        entry = await library.entry(version, ["pump", "pump water"], first=first)
        async with library.database.pool.transaction() as tx:
            await library.index.stage(tx, entry)
        assert await library.names("pump") == [], "not before it is live"

    async with library.database.pool.transaction() as tx:
        await library.publish(tx, version, chunks=4, words=6)

    assert sorted(hit.chunk for hit in (await library.search("pump")).hits) == [0, 1, 2, 3]


async def test_what_is_rolled_back_leaves_nothing(library: Library) -> None:
    version = await library.begin_version(await library.accept("a"))
    entry = await library.entry(version, ["pump"])

    with pytest.raises(ZeroDivisionError):
        async with library.database.pool.transaction() as tx:
            await library.index.stage(tx, entry)
            raise ZeroDivisionError

    assert (await library.run(LEFT, version))[0][0] == 0


async def test_an_attempt_starts_over(library: Library) -> None:
    """The first attempt has staged other batches than the second."""
    document = await library.accept("a")
    version = await library.begin_version(document)
    words = 0
    for texts_of_attempt in (["pump one", "pump two"], ["pump three"]):
        await library.clear(version)
        entry = await library.entry(version, texts_of_attempt)
        async with library.database.pool.transaction() as tx:
            words = await library.index.stage(tx, entry)
    async with library.database.pool.transaction() as tx:
        await library.publish(tx, version, chunks=1, words=words)

    state = await compare(library, library.collections["main"])

    assert set(state.terms) == {"pump", "three"}


async def interrupt(work: Callable[[], Awaitable[object]], after: int) -> None:
    """Stop the work after so many turns of the loop, wherever it is then."""
    task = asyncio.ensure_future(work())
    for _ in range(after):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_fold_that_is_stopped_goes_on(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.search.postings.BITE", 2)
    for number in range(8):
        await library.add(f"{number}", [f"pump word{number} water", "valve"])
    collection = library.collections["main"]
    state = await compare(library, collection)

    for turns in range(0, 200, 20):
        await interrupt(lambda: fold(library.database, collection.id, "static"), after=turns)
        assert await compare(library, collection) == state
    while await library.run("select from penstock.postings limit 1"):
        await fold(library.database, collection.id, "static")
        assert await compare(library, collection) == state
    await check_search(library, "main", state)


async def test_clearing_and_folding_take_turns(library: Library) -> None:
    """A fold that has begun may move what the clearing would not look for any more."""
    document = await library.add("a", ["pump water", "valve"])
    [[version]] = await library.run("select live_id from penstock.documents where id = $1", document)
    collection = library.collections["main"].id
    async with library.database.pool.transaction() as folding:
        await take_turn(folding, collection)
        await sql.begin_folding(folding, collection=collection, most=100)
        await library.delete(document)
        clearing = asyncio.create_task(library.clear(version))
        async with asyncio.timeout(20):
            while not await library.run(WAITING):  # noqa: ASYNC110  what is waited for happens in the server
                await asyncio.sleep(0.01)
        for bucket in range(BUCKETS):
            await sql.fold_bucket.value(
                folding, collection=collection, versions=[version], bucket=bucket, most=100, long=1000
            )
        assert len(await folding.fetch("select from penstock.folded_postings")) == 3
    await clearing

    assert not await library.run("select from penstock.folded_postings")
    assert (await library.run(LEFT, version))[0][0] == 0
