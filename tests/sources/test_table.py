"""A table of another database: no row is missed and none comes twice, whatever the order of commits."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from penstock.documents import Overtaken
from penstock.errors import BadSetting, RateLimited
from penstock.settings import DatabaseUrl
from penstock.sources import MessageOutcome, Sources, Trouble
from penstock.sources.table import open_source
from penstock.sources.table.dialect import KeyColumn, choose_dialect, expand
from penstock.sources.table.queries import Queries, RowKey, TableConnection
from tests.product_with_source import order, product_with_source, until_settled
from tests.sources.polled_table import NAME, Reading, reading

ORDERS = "create table orders (id bigint, name text, content text, at timestamptz)"


@pytest.fixture
async def outside(database_url: DatabaseUrl) -> AsyncIterator[Any]:
    """A connection of the other system."""
    connection = await asyncpg.connect(database_url.reveal())
    yield connection
    await connection.close()


@pytest.fixture
async def late(database_url: DatabaseUrl) -> AsyncIterator[Any]:
    """Another one, for transactions that take their time."""
    connection = await asyncpg.connect(database_url.reveal())
    yield connection
    await connection.close()


def numbers(first: int, last: int) -> list[str]:
    return [str(number) for number in range(first, last + 1)]


async def test_rows_come_once_in_their_order(database_url: DatabaseUrl, tmp_path: Path, outside: Any) -> None:
    await outside.execute(ORDERS)
    await outside.execute("insert into orders select n, 'n' || n from generate_series(1, 25) as n")
    async with reading(database_url, tmp_path, batch=10) as read:
        await read.poll()
        assert await read.ids() == numbers(1, 25)
        await outside.execute(
            "insert into orders select n, 'n' || n from generate_series(40, 45) as n"
        )  # a hole is normal
        await read.poll()
        await read.poll()
        assert await read.ids() == numbers(1, 25) + numbers(40, 45)
        assert await read.counted() == (31, 0), "what is looked at again is no repeat"
    async with reading(database_url, tmp_path) as read:
        await read.poll()
        assert await read.counted() == (31, 0), "a new process goes on where the last one was"


async def test_a_check_reads_and_changes_nothing(database_url: DatabaseUrl, tmp_path: Path, outside: Any) -> None:
    await outside.execute(ORDERS)
    await outside.execute("insert into orders select n, 'n' || n from generate_series(1, 12) as n")
    async with reading(database_url, tmp_path, batch=10) as read:
        sources = Sources(read.product, [NAME])
        found = await sources.check(NAME)
        assert (found.new, found.more, found.examples) == (10, True, numbers(1, 5))
        for table in ("inbox", "sources", "jobs"):
            assert await read.run(f"select from penstock.{table}") == [], table
        await read.poll()
        before = await read.run("select position, polled_at from penstock.sources")
        await outside.execute("insert into orders values (13, 'late')")
        found = await sources.check(NAME)
        assert (found.new, found.more, found.examples) == (1, False, ["13"])
        assert await read.run("select position, polled_at from penstock.sources") == before
        assert await read.ids() == numbers(1, 12)


async def test_a_lower_number_that_is_committed_later_comes(
    database_url: DatabaseUrl, tmp_path: Path, outside: Any, late: Any
) -> None:
    await outside.execute(ORDERS)
    async with reading(database_url, tmp_path, overlap=5) as read:
        transaction = late.transaction()
        await transaction.start()
        await late.execute("insert into orders values (3, 'late'), (18, 'late')")
        await outside.execute(
            "insert into orders select n, 'n' from generate_series(1, 20) as n where n not in (3, 18)"
        )
        await read.poll()
        await read.until_swept()
        assert set(await read.ids()) == set(numbers(1, 20)) - {"3", "18"}
        await transaction.commit()
        await asyncio.wait_for(until_known(read, "18"), 20)
        assert "3" not in await read.ids(), "too low for the overlap"
        await read.until_swept()
        assert sorted(await read.ids(), key=int) == numbers(1, 20)
        assert await read.counted() == (20, 0)


async def until_known(read: Any, number: str) -> None:
    while number not in await read.ids():
        await read.poll()


async def test_what_comes_between_two_looks_is_looked_at(
    database_url: DatabaseUrl, tmp_path: Path, outside: Any, late: Any
) -> None:
    """Others may move the position by more than the overlap before this one looks again."""
    await outside.execute(ORDERS)
    await outside.execute("insert into orders values (1, 'first')")
    async with reading(database_url, tmp_path, overlap=1, batch=100, sweep_every="1d") as read:
        await read.poll()
        transaction = late.transaction()
        await transaction.start()
        await late.execute("insert into orders values (5, 'late')")
        await outside.execute("insert into orders select n, 'n' from generate_series(2, 90) as n where n <> 5")
        await (other := read.another()).poll()
        await other.close()
        await transaction.commit()
        await asyncio.wait_for(until_known(read, "5"), 20)


@pytest.mark.parametrize("kind", ["timestamptz", "timestamp", "date"])
async def test_equal_times_across_the_end_of_a_batch(
    database_url: DatabaseUrl, tmp_path: Path, outside: Any, kind: str
) -> None:
    await outside.execute(f"create table orders (id int, name text, at {kind})")
    await outside.execute("insert into orders select n, 'n', '2026-03-01' from generate_series(1, 25) as n")
    async with reading(database_url, tmp_path, batch=10, order_by="at") as read:
        await read.poll()
        assert await read.ids() == numbers(1, 25)
        await outside.execute("insert into orders values (0, 'n', '2026-03-01'), (26, 'n', '2026-03-01')")
        await asyncio.wait_for(until_known(read, "0"), 20)
        assert set(await read.ids()) == set(numbers(0, 26))
        assert await read.counted() == (27, 0)


async def test_the_sweep_finds_what_the_order_hides(database_url: DatabaseUrl, tmp_path: Path, outside: Any) -> None:
    """A time that is NULL, one that went backwards, one in the far future before all others."""
    await outside.execute(ORDERS)
    await outside.execute("insert into orders values (1, 'n', '', '2026-03-01'), (2, 'future', '', 'infinity')")
    async with reading(database_url, tmp_path, order_by="at") as read:
        await read.poll()
        await outside.execute("insert into orders values (3, 'null', '', null), (4, 'back', '', '1999-12-31')")
        await outside.execute("insert into orders values (5, 'after', '', '2026-03-02')")
        await read.poll()
        assert await read.ids() == ["1", "2"]
        await read.until_swept()
        assert sorted(await read.ids()) == numbers(1, 5)
        await read.until_swept()
        assert await read.counted() == (5, 0)


async def test_a_sweep_goes_on_after_a_restart(
    database_url: DatabaseUrl, tmp_path: Path, outside: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.sources.table.table.KEYS", 10)
    await outside.execute(ORDERS)
    await outside.execute("insert into orders select n, 'n', '', null from generate_series(1, 25) as n")
    async with reading(database_url, tmp_path, order_by="at") as read:
        await read.poll()
        assert await read.ids() == numbers(1, 10)
    async with reading(database_url, tmp_path, order_by="at") as read:
        position = await read.product.inbox.position(NAME)
        assert (position.sweep["after"], position.swept_at) == ("10", None)
        await read.poll()
        assert await read.ids() == numbers(1, 20)
        await read.poll()
        assert await read.ids() == numbers(1, 25)
        position = await read.product.inbox.position(NAME)
        assert position.swept_at is not None
        await outside.execute("insert into orders values (7, 'again', '', null), (26, 'n', '', null)")
        await read.poll()
        assert await read.ids() == numbers(1, 25), "once for every sweep_every"


async def test_rows_without_a_number_are_told_and_the_others_go_on(
    database_url: DatabaseUrl, tmp_path: Path, outside: Any
) -> None:
    await outside.execute("create table orders (id text, name text)")
    await outside.execute("insert into orders values (null, 'n'), ('', 'n'), (null, 'n'), ('a', 'n'), ('b', 'n')")
    async with reading(database_url, tmp_path, poll_every="100ms") as read:
        running = asyncio.create_task(read.source.run())
        await until(read, "select from penstock.sources where error like '3 rows of orders have no id %'")
        assert await read.ids() == ["a", "b"]
        await outside.execute("delete from orders where id is null or id = ''")
        await read.run("update penstock.test_clock set shift = shift + interval '11 minutes'")
        await until(read, "select from penstock.sources where error is null and error_since is null")
        running.cancel()
        await asyncio.wait([running])


async def until(read: Any, query: str) -> None:
    async with asyncio.timeout(20):
        while not await read.run(query):  # noqa: ASYNC110  the database has no event for it
            await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("uuid", ["6f9619ff-8b86-d011-b42d-00c04fc964ff", "7f9619ff-8b86-d011-b42d-00c04fc964ff"]),
        ("text", ["Ä b'c", 'x"; drop table orders --', "l" * 2000]),
        ("numeric", ["9007199254740993", "9007199254740994", "12345678901234567890123"]),
        ("char(6)", ["a", "b"]),
    ],
)
async def test_numbers_of_any_type(
    database_url: DatabaseUrl, tmp_path: Path, outside: Any, kind: str, values: list[str]
) -> None:
    await outside.execute(f"create table orders (id {kind} primary key, name text, state text)")
    async with reading(database_url, tmp_path, batch=1, mark_status="state") as read:
        for value in values:
            await outside.execute(f"insert into orders values (cast(cast($1 as text) as {kind}), 'n')", value)
        await read.poll()
        await read.until_swept()
        shown = [value if len(value) < 1000 else f"{value[:935]}~" for value in sorted(values)]
        assert [each[:936] for each in sorted(await read.ids())] == shown
        await asyncio.wait_for(until_known(read, (await read.ids())[0]), 20)
        assert await read.counted() == (len(values), 0)
        await read.source.tell([MessageOutcome(value, "ready", "") for value in values])
        assert {row["state"] for row in await outside.fetch("select state from orders")} == {"ready"}


async def test_a_view_with_all_types_as_json(database_url: DatabaseUrl, tmp_path: Path, outside: Any) -> None:
    await outside.execute("create schema erp")
    await outside.execute("""
        create view erp."All Orders" as select 1 as "Id", 'a' as name, date '2026-03-01' as day, 12.50::numeric as price,
          timestamptz '2026-03-01 12:00+02' as moment, '\\x00ff'::bytea as raw, '{"a": [1, null]}'::jsonb as inside,
          '[1' as broken, '{"b": 2}' as good, array[1, 2] as list, 'nan'::float8 as nothing, null::text as missing, true as yes,
          'a5bb3a2c-0f76-4fd1-a0d9-8a2d0e1b7f00'::uuid as mark, interval '1 hour' as span, '{"x": 1e999}'::json as huge
    """)
    columns = dict.fromkeys(["name", "day", "price", "moment", "raw", "inside", "broken", "good", "list", "nothing"])
    async with reading(
        database_url, tmp_path, table="erp.All Orders", id="Id", json_columns="broken, good", order_by="moment"
    ) as read:
        await read.poll()
        found = (await read.payloads())["1"]
    assert found.keys() >= columns.keys() - {"moment"}
    assert found == {
        "Id": 1,
        "name": "a",
        "day": "2026-03-01",
        "price": "12.50",
        "raw": "AP8=",
        "inside": {"a": [1, None]},
        "broken": "[1",
        "good": {"b": 2},
        "list": [1, 2],
        "nothing": "nan",
        "missing": None,
        "yes": True,
        "mark": "a5bb3a2c-0f76-4fd1-a0d9-8a2d0e1b7f00",
        "span": "1:00:00",
        "huge": {"x": "1e999"},
    }
    await outside.execute("drop schema erp cascade")


async def test_a_row_that_is_too_large_is_poison(
    database_url: DatabaseUrl, tmp_path: Path, outside: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And many large ones are several batches."""
    monkeypatch.setattr("penstock.sources.table.table.BATCH_BYTES", 300_000)
    await outside.execute(ORDERS)
    await outside.execute("insert into orders select n, 'n', repeat('x', 100000) from generate_series(1, 10) as n")
    await outside.execute("insert into orders values (11, 'n', repeat('x', 200000)), (12, 'n', 'x')")
    async with reading(database_url, tmp_path, largest="150kB") as read:
        assert await read.source.poll()
        assert len(await read.ids()) == 3
        await read.poll()
        assert await read.ids() == numbers(1, 12)
        found = await read.payloads()
        assert "The row has 200," in found["11"]["penstock:poison"]
        assert len(str(found["11"])) < 300
        assert found["12"]["content"] == "x"


async def test_two_pollers_at_once(database_url: DatabaseUrl, tmp_path: Path, outside: Any) -> None:
    await outside.execute(ORDERS)
    await outside.execute("insert into orders select n, 'n' from generate_series(1, 300) as n")
    async with reading(database_url, tmp_path, batch=7, overlap=10) as read:
        other = read.another()
        overtaken = 0

        async def drain(source: Any) -> None:
            nonlocal overtaken
            more = True
            while more:
                try:
                    more = await source.poll()
                except Overtaken:
                    overtaken += 1

        await asyncio.gather(drain(read.source), drain(other))
        await other.close()
        assert await read.ids() == numbers(1, 300)
        assert await read.counted() == (300, 0)
        assert overtaken > 0


async def test_another_order_begins_anew_and_repeats_are_counted(
    database_url: DatabaseUrl, tmp_path: Path, outside: Any
) -> None:
    await outside.execute(ORDERS)
    await outside.execute(
        "insert into orders select n, 'n', '', now() - n * interval '1 s' from generate_series(1, 5) as n"
    )
    async with reading(database_url, tmp_path, columns="id, name") as read:
        await read.poll()
    async with reading(database_url, tmp_path, columns="id, name", order_by="at") as read:
        await read.poll()
        assert (await read.ids(), await read.counted()) == (numbers(1, 5), (5, 5))
        await outside.execute("update orders set name = 'changed', at = now() where id = 4")
        await read.poll()
        [row] = await read.run("select number from penstock.inbox where message_id = '4'")
        assert row["number"] == 2, "a row with a newer time and other content is a new version"


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"table": "nowhere"}, 'relation "nowhere" does not exist: correct the source\'s table'),
        ({"id": "number"}, 'column "number" does not exist: correct the source\'s columns, id'),
        ({"order_by": "when"}, 'column "when" does not exist'),
        ({"mark_error": "why"}, 'column "why" does not exist'),
        (
            {"order_by": "name"},
            "The column name of orders in .* is of the type text, which cannot be order_by: take one with",
        ),
        ({"id": "weight"}, "is of the type float8, which cannot be id"),
        (
            {"url": "postgresql://nobody:canary@127.0.0.1:1/x"},
            r"at 127.0.0.1:1/x cannot be reached .*: start it, or correct",
        ),
    ],
)
async def test_trouble_says_what_to_do(
    database_url: DatabaseUrl, tmp_path: Path, outside: Any, setting: dict[str, Any], said: str
) -> None:
    await outside.execute("create table orders (id int, name text, weight float8)")
    async with reading(database_url, tmp_path, **setting) as read:
        with pytest.raises(Trouble, match=said) as raised:
            await read.source.poll()
        assert "canary" not in str(raised.value)


async def test_a_wrong_password_and_a_wrong_database(database_url: DatabaseUrl, tmp_path: Path) -> None:
    async with reading(database_url, tmp_path, url=database_url.with_database("nowhere").reveal()) as read:
        with pytest.raises(Trouble, match=r"nowhere does not exist: correct the source's url"):
            await read.source.poll()
    explained = choose_dialect("postgresql://u:canary@host/db").explain(asyncpg.InvalidPasswordError("for user u"))
    assert explained == "PostgreSQL at host/db refuses the user or its password: correct the source's url."
    for url, said in (("oracle://host/db", "begins with postgresql://"), ("mysql://u:can@ary@h:x", "cannot be split")):
        with pytest.raises(BadSetting, match=said) as raised:
            choose_dialect(url)
        assert "ary" not in str(raised.value)


async def test_a_lost_connection_is_opened_again(database_url: DatabaseUrl, tmp_path: Path, outside: Any) -> None:
    await outside.execute(ORDERS)
    await outside.execute("insert into orders values (1, 'n')")
    async with reading(database_url, tmp_path) as read:
        await read.poll()
        cut = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'penstock-source'"
        assert len(await outside.fetch(f"{cut} and datname = current_database()")) == 1
        await outside.execute("insert into orders values (2, 'n')")
        with suppress(Trouble):  # unless the end of the connection was heard of before
            await read.poll()
        await read.poll()
        assert await read.ids() == ["1", "2"]


async def test_rows_are_marked_with_what_became_of_them(
    database_url: DatabaseUrl, tmp_path: Path, outside: Any
) -> None:
    """Also when the source was away meanwhile; and a mark is no new version."""
    await outside.execute(
        "create table orders (id int, name text, content text, status text, why text, at timestamptz)"
    )
    await outside.execute("""
        create function touch() returns trigger language plpgsql as 'begin new.at := clock_timestamp(); return new; end';
        create trigger touch before update on orders for each row execute function touch()
    """)
    insert = "insert into orders values ($1, $2, $3, null, 'old', now())"
    await outside.execute(insert, 1, "a.txt", order("a").payload["content"])
    await outside.execute(insert, 2, "b.txt", "no base64!")
    marked: dict[str, Any] = {
        "table": "orders",
        "id": "id",
        "order_by": "at",
        "mark_status": "status",
        "mark_error": "why",
    }
    async with product_with_source(
        database_url, tmp_path, type="table", url=database_url.reveal(), secret=None, **marked
    ) as product:
        source = Reading(product).source
        await source.poll()
        await source.close()
        await until_settled(product)
    async with reading(database_url, tmp_path, **marked) as read:
        sources = Sources(read.product, ["orders"])
        tell: Any = sources.tell_source
        await outside.execute("alter table orders rename to away")
        with pytest.raises(RateLimited, match='relation "orders" does not exist'):
            await tell(Writing(read.product), "orders")
        await outside.execute("alter table away rename to orders")
        assert await tell(Writing(read.product), "orders") == 2
        found = {row["id"]: (row["status"], row["why"]) for row in await outside.fetch("select * from orders")}
        assert found[1] == ("ready", None)
        assert found[2] == ("failed", "The content of b.txt is not base64: correct the sender.")
        assert await tell(Writing(read.product), "orders") == 0
        another = """{"class": "Permanent", "type": "BadMessage", "message": "The sender has no such order."}"""
        await read.run("update penstock.inbox set error = $1 where message_id = '2'", another)
        assert await tell(Writing(read.product), "orders") == 1, "it failed again, for another reason"
        assert await outside.fetchval("select why from orders where id = 2") == "The sender has no such order."
        assert await tell(Writing(read.product), "orders") == 0
        await sources.open("orders").close()
        await read.poll()
        again = await read.run("select number, repeats from penstock.inbox")
        assert [(row["number"], row["repeats"]) for row in again] == [(1, 1), (1, 1)]
    await outside.execute("drop table orders; drop function touch")


class Writing:
    """As much of a job's context as telling needs."""

    def __init__(self, product: Any) -> None:
        self.write = product.app.database.pool.transaction

    async def progress(self, done: int) -> None:
        assert done


async def test_a_source_without_a_url_is_refused(database_url: DatabaseUrl, tmp_path: Path) -> None:
    async with reading(database_url, tmp_path) as read:
        context = read.source.context
        nowhere = type(context)(
            context.name,
            context.chosen.model_copy(update={"url": None}),
            context.settings,
            context.inbox,
            context.store,
        )
        with pytest.raises(BadSetting, match="url is not set: a table needs it"):
            open_source(nowhere)


async def test_a_column_of_another_type_begins_anew(database_url: DatabaseUrl, tmp_path: Path, outside: Any) -> None:
    await outside.execute("create table orders (id int, name text)")
    await outside.execute("insert into orders select n, 'n' from generate_series(8, 11) as n")
    async with reading(database_url, tmp_path, columns="name") as read:
        await read.poll()
    await outside.execute("alter table orders alter id type text")
    await outside.execute("insert into orders values ('10a', 'n')")
    async with reading(database_url, tmp_path, columns="name") as read:
        await read.poll()
        assert (sorted(await read.ids()), await read.counted()) == (["10", "10a", "11", "8", "9"], (5, 4))


@pytest.mark.parametrize("order_by", ["id", "at"])
async def test_the_other_database_finds_keys_by_its_indexes(
    database_url: DatabaseUrl, tmp_path: Path, outside: Any, order_by: str
) -> None:
    """However large the table is, and however many rows have the same time."""
    await outside.execute("create table orders (id int primary key, name text, at timestamptz)")
    await outside.execute("insert into orders select n, 'n', '2026-03-01' from generate_series(1, 20000) as n")
    await outside.execute("create index on orders (at, id)")
    await outside.execute("analyze orders")
    async with reading(database_url, tmp_path, order_by=order_by) as read:
        line = TableConnection(choose_dialect(database_url.reveal()), read.source.context.chosen)
        async with line.open() as (connection, queries):
            low = RowKey("19000" if order_by == "id" else "2026-03-01 00:00+00", "19000")
            asked = [queries.newer(low, 10), queries.page("500", 10), queries.whole(["5", "6"], low)]
            if order_by == "id":
                asked.append(queries.again(low, low, None, 5000))
            for query in asked:
                plan = "\n".join(row[0] for row in await connection.fetch(replace(query, text=f"explain {query.text}")))
                assert "Seq Scan" not in plan, plan
                assert "Index" in plan
        await line.close()


async def test_sql_server_needs_its_driver(database_url: DatabaseUrl, tmp_path: Path) -> None:
    """No more of it can be tried here than its words."""
    async with reading(
        database_url, tmp_path, url="mssql://u:canary@host/db", order_by="at", table="dbo.orders"
    ) as read:
        with pytest.raises(BadSetting, match=r"needs aioodbc: pip install"):
            await read.source.poll()
        dialect, chosen = choose_dialect("mssql://u:canary@host/db"), read.source.context.chosen
        queries = Queries(dialect, chosen, KeyColumn("id", "number", "bigint"), KeyColumn("at", "time", "datetime2(7)"))
        text, values, _ = expand(
            queries.newer(RowKey("2026-03-01", "7"), 10), lambda _number, column: f"<{column.type}>"
        )
        assert text == (
            "select convert(nvarchar(450), [at], 121) as penstock_order, convert(nvarchar(450), [id], 121) as penstock_id, "
            "penstock_row.* from [dbo].[orders] as penstock_row where [id] is not null and [at] is not null "
            "and [at] >= <datetime2(7)> and ([at] > <datetime2(7)> or [id] > <bigint>) "
            "order by [at], [id] offset 0 rows fetch next 10 rows only"
        )
        assert values == ["2026-03-01", "2026-03-01", "7"]
