"""A table of a MariaDB, as a source: the same promises as for PostgreSQL."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import asyncmy
import pytest

from penstock.settings import DatabaseUrl
from penstock.sources import MessageOutcome, Trouble
from penstock.sources.table.dialect import choose_dialect
from penstock.sources.table.queries import RowKey, TableConnection
from tests.sources.polled_table import reading
from tests.sources.servers import PASSWORD, MariaDb, mariadb


@pytest.fixture(scope="module")
def server() -> Iterator[MariaDb]:
    with mariadb() as made:
        yield made


class Erp:
    """The other system."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver

    async def run(self, *statements: str) -> list[Any]:
        found: list[Any] = []
        async with self._driver.cursor() as cursor:
            for statement in statements:
                await cursor.execute(statement)
                found = list(await cursor.fetchall())
        return found


async def connect(server: MariaDb) -> Any:
    return await asyncmy.connect(
        host="127.0.0.1", port=server.port, user="penstock", password=PASSWORD, database="erp", autocommit=True
    )


@pytest.fixture
async def erp(server: MariaDb) -> AsyncIterator[Erp]:
    driver = await connect(server)
    yield Erp(driver)
    driver.close()
    driver = await connect(server)
    async with driver.cursor() as cursor:
        await cursor.execute("show full tables")
        for name, kind in await cursor.fetchall():
            await cursor.execute(f"drop {'view' if kind == 'VIEW' else 'table'} `{name}`")
    await driver.ensure_closed()


@pytest.fixture
async def late(server: MariaDb) -> AsyncIterator[Erp]:
    driver = await connect(server)
    yield Erp(driver)
    await driver.ensure_closed()


def numbers(first: int, last: int) -> list[str]:
    return [str(number) for number in range(first, last + 1)]


async def test_numbers_that_are_committed_out_of_order(
    database_url: DatabaseUrl, tmp_path: Path, server: MariaDb, erp: Erp, late: Erp
) -> None:
    await erp.run("create table orders (id bigint unsigned primary key, name varchar(50))")
    far = 2**63 + 5  # beyond what a float or a signed number tells apart
    async with reading(database_url, tmp_path, url=server.url, batch=3, overlap=5) as read:
        await late.run("begin", f"insert into orders values (3, 'late'), ({far + 8}, 'late')")
        await erp.run(*(f"insert into orders values ({n}, 'n')" for n in [*range(1, 3), *range(far, far + 8), far + 9]))
        await read.poll()
        assert await read.ids() == ["1", "2", *numbers(far, far + 7), str(far + 9)]
        await late.run("commit")
        async with asyncio.timeout(20):
            while str(far + 8) not in await read.ids():
                await read.poll()
        assert "3" not in await read.ids(), "too low for the overlap"
        await read.until_swept()
        assert sorted(await read.ids(), key=int) == [*numbers(1, 3), *numbers(far, far + 9)]
        assert await read.counted() == (13, 0)


@pytest.mark.parametrize("kind", ["datetime(6)", "timestamp", "date"])
async def test_times(database_url: DatabaseUrl, tmp_path: Path, server: MariaDb, erp: Erp, kind: str) -> None:
    """Equal ones across batches, one that is NULL, one that went backwards; in a view with uuids."""
    await erp.run(
        f"create table kept (id uuid primary key, at {kind} null)",
        "create view orders as select id, at from kept",
        *(f"insert into kept values (uuid(), '2026-03-01') -- {n}" for n in range(12)),
    )
    async with reading(database_url, tmp_path, url=server.url, batch=5, order_by="at") as read:
        await read.poll()
        assert len(await read.ids()) == 12
        await erp.run("insert into kept values (uuid(), null)", "insert into kept values (uuid(), '1999-01-01')")
        await erp.run("insert into kept values ('00000000-0000-0000-0000-000000000001', '2026-03-01')")
        await read.until_swept()
        found = {str(row[0]) for row in await erp.run("select id from kept")}
        assert set(await read.ids()) == found
        assert await read.counted() == (15, 0)


async def test_rows_as_json_and_marks(
    database_url: DatabaseUrl, tmp_path: Path, server: MariaDb, erp: Erp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.sources.table.table.BATCH_BYTES", 300_000)
    await erp.run(
        "create table orders (id varchar(20) primary key, day date, price decimal(8, 2), raw varbinary(10), inside json, "
        "broken text, body longtext, yes bool, status varchar(20), why text, "
        "at timestamp not null default current_timestamp on update current_timestamp)",
        "insert into orders values ('o''1', '2026-03-01', 12.5, x'00ff', '{\"a\": [1]}', '[1', 'ä😀', true, null, 'old', "
        "now())",
        *(f"insert into orders (id, body) values ('p{n}', repeat('x', 100000))" for n in range(7)),
        "insert into orders (id, body) values ('z', repeat('x', 200000))",
    )
    chosen = {"json_columns": "inside, broken", "mark_status": "status", "mark_error": "why", "largest": "150kB"}
    async with reading(database_url, tmp_path, url=server.url, order_by="at", **chosen) as read:
        assert await read.source.poll(), "more than fits into a batch"
        await read.poll()
        assert len(await read.ids()) == 9
        payloads = await read.payloads()
        assert payloads["o'1"] == {
            "id": "o'1",
            "day": "2026-03-01",
            "price": "12.50",
            "raw": "AP8=",
            "inside": {"a": [1]},
            "broken": "[1",
            "body": "ä😀",
            "yes": 1,
        }
        assert "The row has 200," in payloads["z"]["penstock:poison"]
        await read.source.tell(
            [MessageOutcome("o'1", "ready", ""), MessageOutcome("p1", "failed", "Its 'name' is taken.")]
        )
        marks = await erp.run("select id, status, why from orders where status is not null order by id")
        assert [tuple(row) for row in marks] == [("o'1", "ready", None), ("p1", "failed", "Its 'name' is taken.")]
        await read.poll()
        assert {row["number"] for row in await read.run("select number from penstock.inbox")} == {1}


async def test_rows_without_a_number(database_url: DatabaseUrl, tmp_path: Path, server: MariaDb, erp: Erp) -> None:
    await erp.run("create table orders (id varchar(20), n int)")
    await erp.run("insert into orders values (null, 1), ('', 2), ('a', 3)")
    async with reading(database_url, tmp_path, url=server.url) as read:
        await read.poll()
        await read.poll()
        assert await read.ids() == ["a"]
        assert read.source.context.findings[0].startswith("2 rows of orders have no id")


async def test_trouble_and_a_restart(database_url: DatabaseUrl, tmp_path: Path, server: MariaDb, erp: Erp) -> None:
    await erp.run("create table orders (id int primary key, weight double)", "insert into orders values (1, 1)")
    wrong: list[tuple[dict[str, str], str]] = [
        ({"url": server.url.replace(PASSWORD, "canary")}, "refuses the user or its password"),
        ({"url": server.url.replace("/erp", "/nowhere")}, "grant it select|no such database"),
        ({"table": "nowhere"}, "Correct the source's table"),
        ({"id": "number"}, "Unknown column 'number'.* Correct the source's columns"),
        ({"order_by": "weight"}, "cannot be order_by"),
    ]
    for setting, said in wrong:
        async with reading(database_url, tmp_path, **({"url": server.url} | setting)) as read:
            with pytest.raises(Trouble, match=said) as raised:
                await read.source.poll()
            assert "canary" not in str(raised.value)
    async with reading(database_url, tmp_path, url=server.url) as read:
        await read.poll()
        server.stop()
        for _ in range(2):
            with pytest.raises(Trouble, match="cannot be reached"):
                await read.source.poll()
        with pytest.raises(Trouble, match="cannot be reached"):
            await read.source.tell([MessageOutcome("1", "ready", "")])
        server.start()
        again = Erp(await connect(server))
        await again.run("insert into orders values (2, 1)")
        await read.poll()
        assert await read.ids() == ["1", "2"]
        await again._driver.ensure_closed()


async def test_keys_are_found_by_indexes(database_url: DatabaseUrl, tmp_path: Path, server: MariaDb, erp: Erp) -> None:
    await erp.run(
        "create table orders (id int primary key, name varchar(100), at datetime(6), key (at, id))",
        "insert into orders select seq, repeat('n', 90), '2026-01-01' + interval seq second from seq_1_to_20000",
        "analyze table orders",
    )
    for order_by, low in (("id", RowKey("19000", "19000")), ("at", RowKey("2026-01-01 05:00:00.000000", "18000"))):
        async with reading(database_url, tmp_path, url=server.url, order_by=order_by) as read:
            line = TableConnection(choose_dialect(server.url), read.source.context.chosen)
            async with line.open() as (connection, queries):
                asked = [queries.newer(low, 10), queries.again(low, low, None, 5000), queries.page("500", 10)]
                for query in asked:
                    [plan] = await connection.fetch(replace(query, text=f"explain {query.text}"))
                    assert plan[3] == "range", (query.text, plan)
            await line.close()
