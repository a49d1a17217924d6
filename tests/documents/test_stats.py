"""What happened, minute by minute: counted once, read in steps, and never behind."""

from datetime import timedelta

from penstock.database import Database
from penstock.documents.stats import count_minutes, read_minutes, sql, waiting_now

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


async def happen(database: Database, event: str, ago: timedelta, count: int = 1, tenant: str = "default") -> None:
    async with database.pool.session() as session:
        await session.execute(
            """
            insert into penstock.events (tenant, collection_id, document_id, event, at)
            select $1, case when $1 = 'default' then 1 else 2 end, n, $2, penstock.now() - $3::interval
            from generate_series(1, $4::int) as n
            """,
            tenant,
            event,
            ago,
            count,
        )


async def ready(database: Database, **wanted: object) -> list[int]:
    found = await read_minutes(database, span=HOUR, step=MINUTE, **wanted)  # type: ignore[arg-type]
    return [each.ready for each in found]


async def test_read_minutes_before_and_after_counting(database: Database) -> None:
    await happen(database, "ready", timedelta(minutes=30), 7)
    await happen(database, "failed", timedelta(minutes=30), 2)
    await happen(database, "accepted", timedelta(minutes=30), 9)
    await happen(database, "ready", timedelta(0), 3)
    await happen(database, "ready", timedelta(minutes=30), 5, tenant="rival")
    before = await read_minutes(database, span=HOUR, step=MINUTE)
    assert (len(before), before[-1].ready, before[29].ready, before[29].failed, before[29].accepted) == (60, 3, 7, 2, 9)

    assert await count_minutes(database) > 0
    after = await read_minutes(database, span=HOUR, step=MINUTE)
    assert [each.ready for each in after][28:31] == [each.ready for each in before][28:31]
    assert sum(await ready(database, tenant="rival")) == 5
    assert sum(await ready(database, collections=[2])) == 0
    assert sum(await ready(database, collections=[1])) == 10
    day = await read_minutes(database, span=timedelta(days=1), step=timedelta(minutes=15))
    assert (len(day), sum(each.ready for each in day), sum(each.failed for each in day)) == (96, 10, 2)


async def test_count_minutes_again_and_again(database: Database) -> None:
    """A count is not added twice, and one that comes between two counts is not lost."""
    await happen(database, "ready", timedelta(minutes=20), 4)
    for _ in range(3):
        await count_minutes(database)
        assert sum(await ready(database)) == 4
    await happen(database, "ready", timedelta(minutes=1), 2)
    await count_minutes(database)
    await happen(database, "ready", timedelta(minutes=1), 1)  # committed after one with a larger number was counted
    assert sum(await ready(database)) == 7
    await count_minutes(database)
    assert sum(await ready(database)) == 7
    async with database.pool.session() as session:
        await session.execute("update penstock.test_clock set shift = shift + interval '30 minutes'")
    await count_minutes(database)
    await count_minutes(database)
    assert sum(await ready(database)) == 7


async def test_count_minutes_of_a_long_backlog_in_bites(database: Database) -> None:
    for ago in (40, 30, 20, 10):
        await happen(database, "ready", timedelta(minutes=ago), 5)
    for _ in range(12):
        async with database.pool.transaction() as tx:
            await sql.count_minutes(tx, again=timedelta(minutes=3), most=7)
    assert sum(await ready(database)) == 20


async def test_waiting_now_and_sampled(database: Database) -> None:
    async with database.pool.session() as session:
        await session.execute(
            """
            insert into penstock.collections (name, model, chunk_size, chunk_overlap, ocr_language, search_language)
            values ('mill', 'none', 1000, 0, 'en', 'en');
            insert into penstock.documents (collection_id, name, changed_at)
            select currval(pg_get_serial_sequence('penstock.collections', 'id')), 'd' || n, penstock.now() - interval '90 s'
            from generate_series(1, 3) as n
            """
        )
    [waiting] = await waiting_now(database)
    assert (waiting.name, waiting.waiting, round(waiting.oldest.total_seconds())) == ("mill", 3, 90)
    await count_minutes(database)
    last = (await read_minutes(database, span=HOUR, step=MINUTE))[-1]
    assert (last.waiting, round(last.oldest)) == (3, 90)


async def test_forget_minutes(database: Database) -> None:
    await happen(database, "ready", timedelta(minutes=5), 4)
    await count_minutes(database)
    async with database.pool.session() as session:
        await session.execute("update penstock.test_clock set shift = shift + interval '9 days'")
        await count_minutes(database)
        assert await session.fetchval("select count(*) from penstock.minutes") == 0
