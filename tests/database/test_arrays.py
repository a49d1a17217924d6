"""The arrays that the driver is told about are those of the server."""

from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from penstock.database import Database
from penstock.database.session import ARRAYS

VALUES: dict[str, Any] = {
    "bool": True,
    "bytea": b"\0x",
    "int2": 7,
    "int4": -7,
    "int8": 2**40,
    "float4": 0.5,
    "float8": 0.1,
    "json": '{"a": 1}',
    "jsonb": '{"a": 1}',
    "date": date(2024, 2, 29),
    "timestamptz": datetime(2024, 2, 29, tzinfo=UTC),
    "interval": timedelta(hours=1),
    "uuid": UUID(int=7),
}


async def test_the_numbers_are_those_of_the_catalog(database: Database) -> None:
    async with database.pool.session() as session:
        rows = await session.fetch(
            "select typname::text, oid::int, typarray::int from pg_type where typname = any ($1::text[])",
            [name for name, _, _ in ARRAYS],
        )
    assert {tuple(row) for row in rows} == set(ARRAYS)


@pytest.mark.parametrize("name", [name for name, _, _ in ARRAYS])
async def test_they_come_back_as_they_went_and_nobody_asked_for_them(database: Database, name: str) -> None:
    asked: list[str] = []
    session = await database.direct("test")
    try:
        session.add_query_logger(lambda record: asked.append(record.query))
        value = await session.fetchval(f"select $1::{name}[]", [VALUES[name], None])
    finally:
        await session.close()
    assert value == [VALUES[name], None]
    assert asked == [f"select $1::{name}[]"]
