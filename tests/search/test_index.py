"""The index is always what a rebuild from the live texts would be."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.errors import WrongState
from penstock.search import CollectionRef, compact
from penstock.search.bm25.postings import BUCKETS, sql, take_turn
from penstock.search.bm25.tokenizer import vocabulary
from tests.search.conftest import SearchedTexts
from tests.search.rebuild import State, rank, read_index, rebuild
from tests.slow import examples

WORDS = ("pump", "pumps", "valve", "turbine", "water", "gates", "naïve", "東京都")
QUESTIONS = ("pump", "valves water", "turbines and gates", "naive 東京", "pump pumps water turbine")
texts = st.lists(st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join), min_size=1, max_size=4)
steps = st.one_of(
    st.tuples(st.just("add"), texts),
    st.tuples(st.just("replace"), texts),
    st.tuples(st.just("stage"), texts),
    st.tuples(st.sampled_from(["delete", "clear", "compact", "look"]), st.just([""])),
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
    """One of several clients that work on a collection at the same time."""

    def __init__(self, searched_texts: SearchedTexts, name: str, documents: list[int]) -> None:
        self.searched_texts = searched_texts
        self.name = name
        self.documents = documents  # shared by all clients; the one that takes one out owns it until it is put back

    async def act(self, plan: Sequence[tuple[str, Sequence[str]]]) -> None:
        for step, given_texts in plan:
            await getattr(self, step)(given_texts)

    async def add(self, given_texts: Sequence[str]) -> None:
        name = f"document {next(numbers)}"
        self.documents.append(await self.searched_texts.add(name, given_texts, collection=self.name))

    async def replace(self, given_texts: Sequence[str]) -> None:
        if self.documents:
            document = self.documents.pop(0)
            await self.searched_texts.replace(document, given_texts, collection=self.name)
            self.documents.append(document)

    async def stage(self, given_texts: Sequence[str]) -> None:
        """A version whose job dies before the end: its rows stay, and search must not see them."""
        document = await self.searched_texts.accept(f"document {next(numbers)}", collection=self.name)
        version = await self.searched_texts.begin_version(document)
        entry = await self.searched_texts.entry(version, given_texts, collection=self.name)
        async with self.searched_texts.database.pool.transaction() as tx:
            await self.searched_texts.index.stage(tx, entry)

    async def delete(self, _: Sequence[str]) -> None:
        if self.documents:
            await self.searched_texts.delete(self.documents.pop(0))

    async def clear(self, _: Sequence[str]) -> None:
        for row in await self.searched_texts.run(REMOVABLE, self.searched_texts.collections[self.name].id):
            await self.searched_texts.clear(row["version_id"], most=3)

    async def compact(self, _: Sequence[str]) -> None:
        await compact(self.searched_texts.database, self.searched_texts.collections[self.name].id, "static")

    async def look(self, _: Sequence[str]) -> None:
        await compare(self.searched_texts, self.searched_texts.collections[self.name])


async def compare(searched_texts: SearchedTexts, collection: CollectionRef) -> State:
    """In one snapshot, at any moment."""
    async with searched_texts.database.pool.transaction() as tx:
        await tx.execute("set transaction isolation level repeatable read, read only")
        expected = await rebuild(tx, collection)
        found = await read_index(tx, collection)
    assert found == expected
    return expected


async def check_search(searched_texts: SearchedTexts, name: str, state: State) -> None:
    words = vocabulary("english")
    for question in QUESTIONS:
        expected = rank(state, words.ask(question))
        found = await searched_texts.search(question, name, mode="words", k=100)
        assert [(hit.version << 21 | hit.chunk) for hit in found.hits] == [key for key, _ in expected][:100]
        assert [hit.score for hit in found.hits] == pytest.approx([score for _, score in expected][:100])


@settings(
    max_examples=examples(30),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(plans=actors)
async def test_counts_and_results_equal_a_rebuild(
    searched_texts: SearchedTexts, plans: list[list[tuple[str, list[str]]]]
) -> None:
    name = f"collection {next(numbers)}"
    collection = await searched_texts.collection(name)
    documents: list[int] = []

    await asyncio.gather(*(Actor(searched_texts, name, documents).act(plan) for plan in plans))

    state = await compare(searched_texts, collection)
    await check_search(searched_texts, name, state)
    tidy = Actor(searched_texts, name, documents)
    await tidy.compact([])
    await tidy.clear([])
    assert await compare(searched_texts, collection) == state, "tidying changes nothing"
    await check_search(searched_texts, name, state)
    for document in documents:
        await searched_texts.delete(document)
    await tidy.clear([])
    assert (await compare(searched_texts, collection)).terms == {}


async def test_nothing_is_left_of_a_cleared_version(searched_texts: SearchedTexts) -> None:
    document = await searched_texts.add("a", ["pump water", "valve"])
    [row] = await searched_texts.run("select live_id from penstock.documents where id = $1", document)
    await compact(searched_texts.database, searched_texts.collections["main"].id, "static")
    await searched_texts.add("b", ["pump gate"])
    await searched_texts.delete(document)

    assert await searched_texts.clear(row["live_id"], most=2) > 0

    assert (await searched_texts.run(LEFT, row["live_id"]))[0][0] == 0
    terms = {each["term"] for each in await searched_texts.run("select term from penstock.folded_postings")}
    assert terms == set(), "no long row is left empty"
    assert await searched_texts.names("pump", mode="words") == ["b"]


async def test_a_live_version_is_not_cleared(searched_texts: SearchedTexts) -> None:
    version = await searched_texts.replace(await searched_texts.accept("a"), ["pump"])

    with pytest.raises(WrongState, match="is live"):
        await searched_texts.clear(version)

    assert await searched_texts.names("pump") == ["a"]


async def test_a_version_is_staged_in_batches_and_seen_at_once(searched_texts: SearchedTexts) -> None:
    document = await searched_texts.accept("a")
    version = await searched_texts.begin_version(document)
    for first in (0, 2):
        entry = await searched_texts.entry(version, ["pump", "pump water"], first=first)
        async with searched_texts.database.pool.transaction() as tx:
            await searched_texts.index.stage(tx, entry)
        assert await searched_texts.names("pump") == [], "not before it is live"

    async with searched_texts.database.pool.transaction() as tx:
        await searched_texts.publish(tx, version, chunks=4, words=6)

    assert sorted(hit.chunk for hit in (await searched_texts.search("pump")).hits) == [0, 1, 2, 3]


async def test_what_is_rolled_back_leaves_nothing(searched_texts: SearchedTexts) -> None:
    version = await searched_texts.begin_version(await searched_texts.accept("a"))
    entry = await searched_texts.entry(version, ["pump"])

    with pytest.raises(ZeroDivisionError):
        async with searched_texts.database.pool.transaction() as tx:
            await searched_texts.index.stage(tx, entry)
            raise ZeroDivisionError

    assert (await searched_texts.run(LEFT, version))[0][0] == 0


async def test_an_attempt_starts_over(searched_texts: SearchedTexts) -> None:
    """The first attempt has staged other batches than the second."""
    document = await searched_texts.accept("a")
    version = await searched_texts.begin_version(document)
    words = 0
    for texts_of_attempt in (["pump one", "pump two"], ["pump three"]):
        await searched_texts.clear(version)
        entry = await searched_texts.entry(version, texts_of_attempt)
        async with searched_texts.database.pool.transaction() as tx:
            words = await searched_texts.index.stage(tx, entry)
    async with searched_texts.database.pool.transaction() as tx:
        await searched_texts.publish(tx, version, chunks=1, words=words)

    state = await compare(searched_texts, searched_texts.collections["main"])

    assert set(state.terms) == {"pump", "three"}


async def interrupt(work: Callable[[], Awaitable[object]], after: int) -> None:
    """Stop the work after so many turns of the loop, wherever it is then."""
    task = asyncio.ensure_future(work())
    for _ in range(after):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_compaction_that_is_stopped_goes_on(
    searched_texts: SearchedTexts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.search.bm25.postings.MOVED_MOST", 2)
    for number in range(8):
        await searched_texts.add(f"{number}", [f"pump word{number} water", "valve"])
    collection = searched_texts.collections["main"]
    state = await compare(searched_texts, collection)

    for turns in range(0, 200, 20):
        await interrupt(lambda: compact(searched_texts.database, collection.id, "static"), after=turns)
        assert await compare(searched_texts, collection) == state
    while await searched_texts.run("select from penstock.postings limit 1"):
        await compact(searched_texts.database, collection.id, "static")
        assert await compare(searched_texts, collection) == state
    await check_search(searched_texts, "main", state)


async def test_clearing_and_compaction_take_turns(searched_texts: SearchedTexts) -> None:
    """A compaction that has begun may move rows after the clearing has passed them."""
    document = await searched_texts.add("a", ["pump water", "valve"])
    [[version]] = await searched_texts.run("select live_id from penstock.documents where id = $1", document)
    collection = searched_texts.collections["main"].id
    async with searched_texts.database.pool.transaction() as compaction:
        await take_turn(compaction, collection)
        await sql.begin_compaction(compaction, collection=collection, most=100)
        await searched_texts.delete(document)
        clearing = asyncio.create_task(searched_texts.clear(version))
        async with asyncio.timeout(20):
            while not await searched_texts.run(WAITING):  # noqa: ASYNC110  what is waited for happens in the server
                await asyncio.sleep(0.01)
        for bucket in range(BUCKETS):
            await sql.compact_bucket.value(
                compaction, collection=collection, versions=[version], bucket=bucket, most=100, long=1000
            )
        assert len(await compaction.fetch("select from penstock.folded_postings")) == 3
    await clearing

    assert not await searched_texts.run("select from penstock.folded_postings")
    assert (await searched_texts.run(LEFT, version))[0][0] == 0
