"""Messages of streams: each once, in an order, bounded; sources that bring them; and looks that stay cheap."""

import asyncio
import json
from dataclasses import astuple
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from penstock.database import Database, Statement
from penstock.documents import SourceMessage
from penstock.errors import BadSetting, BadValue, QueueFull, Refused, WrongState
from penstock.memos import Message, Posted, find_stream, list_streams, post
from penstock.memos.batch import read_batch
from penstock.memos.batch import sql as batch_sql
from penstock.memos.streams import ID_MAX, TEXT_MAX, read_payload, sql
from penstock.operations import examine
from penstock.settings import DatabaseUrl, load_settings
from penstock.settings.memos import MemoSettings
from tests.memos.memo_model import MemoModel, memos_of, product_of, read, rows, say, until, working


async def put(database: Database, *messages: Message, most: int = 100, name: str = "mill") -> Posted:
    async with database.pool.transaction() as tx:
        return await post(tx, name, messages, tenant="default", most=most)


async def test_the_same_message_again_is_the_same(database: Database) -> None:
    at = datetime(2026, 11, 17, 18, tzinfo=UTC)
    first = await put(
        database, Message("a", "hello", "Ann", at), Message("b", "you", "Bob"), Message("a", "hello", "Ann", at)
    )
    assert [astuple(each) for each in first.messages] == [("a", 1, True), ("b", 2, True)]
    again = await put(database, Message("b", "you", "Bob"), Message("c", "more"), Message("a", "hello", "Ann", at))
    assert [astuple(each) for each in again.messages] == [("b", 2, False), ("c", 3, True), ("a", 1, False)]
    assert (again.new, again.waiting) == (1, 3)
    for other in (Message("a", "hello!", "Ann", at), Message("a", "hello", "Bob", at), Message("a", "hello", "Ann")):
        with pytest.raises(WrongState, match="'a' with other content"):
            await put(database, Message("d", "not kept either"), other)
    with pytest.raises(WrongState):
        await put(database, Message("e", "one"), Message("e", "another"))
    [stream] = await database.pool.repeat(list_streams, tenant="default")
    assert (stream.last, stream.waiting, stream.state) == (3, 3, "waiting")


async def test_many_at_once_have_numbers_without_gaps(database: Database) -> None:
    """Twenty senders, each with some messages that others send, too; all make the stream at the same time."""
    done = await asyncio.gather(
        *(put(database, *(Message(f"{(n + m) % 30}", f"text {(n + m) % 30}") for m in range(5))) for n in range(20))
    )
    assert sum(posted.new for posted in done) == 24
    numbers = {each.message_id: each.number for posted in done for each in posted.messages}
    assert sorted(numbers.values()) == list(range(1, 25))


async def test_who_sends_more_than_is_read_is_told_to_come_again(database: Database) -> None:
    await put(database, *(Message(str(n), "x") for n in range(5)), most=5)
    with pytest.raises(
        QueueFull, match=r"The stream mill has 5 messages that wait .* memos.waiting allows 5"
    ) as refused:
        await put(database, Message("new", "x"), most=5)
    assert refused.value.retry_after.total_seconds() == 30
    assert (await put(database, Message("1", "x"), most=5)).new == 0, "what is there already needs no room"


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (Message("", "x"), "has no message_id"),
        (Message("a", " \n"), "has no text"),
        (Message("a", "a\0b"), "a NUL character"),
        (Message("a\0", "b"), "a NUL character"),
        (Message("a", "half \ud83d"), "half of a character"),
        (Message("a", "x" * (TEXT_MAX + 1)), "more than 100,000"),
        (Message("a" * 10_000, "x"), "more than 1,000"),
        (Message("a", "x", "Ann" * 100), "more than 200"),
    ],
)
async def test_what_cannot_be_kept_is_refused(database: Database, message: Message, reason: str) -> None:
    with pytest.raises(BadValue, match=reason):
        await put(database, message)
    assert len("ä" * (ID_MAX // 2)) == 500
    await put(database, Message("ä" * (ID_MAX // 2), "x" * TEXT_MAX))


@pytest.mark.parametrize("name", ["", " ", "a/b", "a\\b", "..", "a\nb", "x" * 201, "\0"])
async def test_what_cannot_be_the_name_of_a_stream(database: Database, name: str) -> None:
    with pytest.raises(BadValue):
        await put(database, Message("a", "x"), name=name)
    for count in (0, 1001):
        with pytest.raises(BadValue, match="1 to 1,000"):
            await put(database, *(Message(str(n), "x") for n in range(count)))


async def test_a_batch_is_bounded_by_messages_and_by_characters(database: Database) -> None:
    chosen = MemoSettings(batch=3, characters=1000)
    lengths = [600, 300, 300, 99_000, 10, 10, 10, 10]
    posted = await put(database, *(Message(str(n), "x" * length) for n, length in enumerate(lengths)))
    after, found = 0, []
    while after < posted.waiting:
        batch = await database.pool.repeat(
            lambda session, after=after: read_batch(session, posted.stream_id, after, chosen, "main")  # type: ignore[misc]
        )
        assert batch is not None
        found.append([line[0] for line in batch["lines"]])
        assert all(len(text) <= 500 for _, text in batch["earlier"])
        after = batch["upto"]
        async with database.pool.transaction() as tx:
            await tx.execute(
                "update penstock.streams set done = $1, waits_since = case when last > $1 then now() end", after
            )
    assert found == [[1, 2], [3], [4], [5, 6, 7], [8]]


# -- a source ---------------------------------------------------------------------------------------------------------------


async def test_a_source_brings_messages(database_url: DatabaseUrl, tmp_path: Path, memo_model: MemoModel) -> None:
    """Each once, in the transaction that takes it; what cannot be used is a dead letter."""
    source = {"type": "webhook", "secret": "s", "makes": "memo"}
    async with (
        product_of(database_url, tmp_path, memo_model.chat, sources={"chat": source}) as product,
        working(product),
    ):
        said = {"stream": "mill", "author": "Ann", "text": "The gate is of oak.", "at": "2026-11-17T18:00:00"}
        good, bare = SourceMessage("a", said), SourceMessage("b", {"text": "The weir leaks."})
        bad = [
            SourceMessage("c", {"stream": "mill"}),
            SourceMessage("d", said | {"stream": "a/b"}),
            SourceMessage("e", said | {"at": "today"}),
        ]
        await product.inbox.receive("chat", [good, bare, *bad])
        await until(product, "select 1 where not exists (select from penstock.inbox where state = 'waiting')")
        states = await rows(
            product, "select message_id, state, document_id, error from penstock.inbox order by message_id"
        )
        assert [(row["message_id"], row["state"], row["document_id"]) for row in states] == [
            ("a", "taken", None),
            ("b", "taken", None),
            ("c", "failed", None),
            ("d", "failed", None),
            ("e", "failed", None),
        ]
        reasons = [json.loads(row["error"])["message"] for row in states[2:]]
        assert [part in said for part, said in zip(("no text", "The name 'a/b'", "'today'"), reasons, strict=True)] == [
            True
        ] * 3
        assert (await product.inbox.receive("chat", [good])).repeats == 1
        await read(product)
        assert [row["text"] for row in await memos_of(product)] == ["The gate is of oak."]
        assert [row["text"] for row in await memos_of(product, "chat")] == ["The weir leaks."], (
            "its name is the stream's"
        )
        [row] = await rows(product, "select * from penstock.messages where message_id = 'a'")
        assert (row["author"], row["at"]) == ("Ann", datetime(2026, 11, 17, 18, tzinfo=UTC))
        changed = SourceMessage("a", said | {"text": "The gate is of steel."})
        await product.inbox.receive("chat", [changed])
        failed = "select error ->> 'message' as said from penstock.inbox where message_id = 'a' and state = 'failed'"
        found = await until(product, failed)
        assert "already has a message 'a' with other content" in found[0]["said"]


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"text": 7},
        {"text": ""},
        {"text": "x", "author": ["Ann"]},
        {"text": "x", "stream": {}},
        {"text": "x", "at": "9" * 99},
    ],
)
def test_what_a_source_cannot_bring(payload: dict[str, Any]) -> None:
    with pytest.raises(Refused):
        read_payload(payload, "1", "chat")


def test_files_are_no_messages(tmp_path: Path) -> None:
    source = {"type": "folder", "folder": "/x", "makes": "memo"}
    with pytest.raises(BadSetting, match=r"sources\.chat\.makes.* is memo"):
        load_settings(working_folder=tmp_path, environ={}, sources={"chat": source})


# -- without a model --------------------------------------------------------------------------------------------------------


async def test_without_a_model_one_job_says_so_for_all_streams(database_url: DatabaseUrl, tmp_path: Path) -> None:
    async with product_of(database_url, tmp_path, None) as product, working(product):
        for name in ("mill", "ferry"):
            await say(product, name, "The gate is of oak.")
        kind = product.app.kinds["memo.batch-check"]
        job = await product.app.enqueue(kind(), fairness_key="_system")
        waiting = "select failures, error from penstock.jobs where state = 'later'"
        found = await until(product, waiting)
        assert [(row["failures"], "No language model is configured" in row["error"]) for row in found] == [(0, True)]
        [finding] = [each for each in await examine(product.settings) if each.name == "no-llm"]
        assert f"1 job, of which job {job} is the oldest" in finding.sentence
        async with product.app.transaction() as tx:  # as if the schedule had put it in
            await tx.execute("update penstock.schedules set last_job = $1 where name = 'memo.batch-check'", job)
        stream = await product.app.database.pool.repeat(find_stream, "mill", tenant="default")
        assert (stream.state, stream.job) == ("waiting", None)
        assert "No language model is configured: add a table [llms.NAME]" in stream.reason


# -- plans ------------------------------------------------------------------------------------------------------------------

FILL = """
insert into penstock.streams (name, last, done, waits_since, posted_at)
select 's' || n, 10, case when n % 100 = 0 then 5 else 10 end, case when n % 100 = 0 then penstock.now() end, penstock.now()
from generate_series(1, 20000) as n;
insert into penstock.messages (stream_id, seq, message_id, author, text)
select (select max(id) from penstock.streams), n, 'm' || n, '', 'x' from generate_series(11, 50000) as n;
insert into penstock.job_keys select n::text, n from generate_series(1, 20000) as n;
analyze penstock.streams, penstock.messages, penstock.job_keys;
"""


async def test_looking_costs_what_is_new_and_not_what_there_is(database: Database) -> None:
    """20,000 streams, of which 200 wait, and one of 50,000 messages: no statement of a batch walks through a table."""
    async with database.pool.transaction() as tx:
        await tx.execute(FILL)
    stream = await database.pool.repeat(lambda session: session.fetchval("select max(id) from penstock.streams"))
    before = {"before": 6, "length": 500}
    asked: list[tuple[Statement, dict[str, Any]]] = [
        (sql.streams_waiting, {"since": None, "after": 0, "most": 500}),
        (sql.deleted_streams, {"most": 500}),
        (batch_sql.next_messages, {"stream": stream, "after": 20_000, "most": 50, "characters": 40_000} | before),
        (sql.lock_stream, {"tenant": "default", "name": "s77"}),
        (sql.list_streams, {"tenant": "default", "after": "s5", "name": None, "most": 100}),
    ]
    async with database.pool.session() as session:
        for statement, values in asked:
            [row] = await session.fetch(f"explain (format json) {statement.text}", *statement.arguments(values))
            for node in _nodes(json.loads(row[0])[0]["Plan"]):
                large = node.get("Relation Name") in {"streams", "messages", "job_keys"}
                assert not (large and node["Node Type"] == "Seq Scan"), (statement.name, node)
        assert len(await sql.streams_waiting(session, since=None, after=0, most=500)) == 200


def _nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(node for part in plan.get("Plans", []) for node in _nodes(part))]
