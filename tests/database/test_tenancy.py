"""The second net: in the name of one tenant, no statement shows or changes what belongs to another."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from penstock.database import Database, Pool, open_database
from penstock.database.session import connect
from penstock.database.tenancy import all_tenants, check_tenant, is_guarded, only
from penstock.errors import BadValue
from penstock.search import prepare_model
from penstock.settings import DatabaseUrl, PoolSettings, Settings

# One row of everything that a tenant has; :n is 1 for a and 2 for b.
FILL = """
insert into penstock.collections (id, tenant, name, model, chunk_size, chunk_overlap, ocr_language, search_language)
  overriding system value values ({n}, '{t}', 'same', 'static', 1000, 0, 'eng', 'english');
insert into penstock.blobs (id, tenant, key, digest, size) overriding system value
  values ({n}, '{t}', 'canary-{t}', sha256('same'), 4);
insert into penstock.documents (id, tenant, collection_id, name) values ({n}, '{t}', {n}, 'canary-{t}');
insert into penstock.versions (id, tenant, document_id, number, blob_id, title) values ({n}, '{t}', {n}, 1, {n}, 'canary-{t}');
insert into penstock.pages (version_id, number, text) values ({n}, 1, 'canary-{t}');
insert into penstock.chunks (version_id, ordinal, start, stop, heading, text) values ({n}, 0, 0, 8, '', 'canary-{t}');
insert into penstock.events (tenant, collection_id, document_id, event, details) values ('{t}', {n}, {n}, 'canary-{t}', '{{}}');
insert into penstock.tallies (collection_id, documents, chunks, words) values ({n}, 1, 1, 1);
insert into penstock.minutes (tenant, collection_id, minute) values ('{t}', {n}, penstock.now());
insert into penstock.hidden_versions (version_id, collection_id) values ({n}, {n}) on conflict do nothing;
insert into penstock.indexed_batches (version_id, first, collection_id, chunks, terms) values ({n}, 0, {n}, 1, 'canary-{t}');
insert into penstock.postings (collection_id, first, version_id, bucket, terms, entries)
  values ({n}, 0, {n}, 0, array['canary-{t}'], array['\\x00'::bytea]);
insert into penstock.folded_postings (collection_id, part, term, entries, lowest, highest)
  values ({n}, 0, 'canary-{t}', '\\x00', 1, 1);
insert into penstock.idempotency (tenant, route, key, holder) values ('{t}', 'r', 'canary-{t}', 'h');
insert into penstock.removals (document_id, tenant, collection_id, state, reason, deleted_at, due_at)
  values ({n}, '{t}', {n}, 'ready', 'canary-{t}', now(), now());
insert into penstock.receipts (document_id, tenant, collection, name, contents, deleted_at, removed, collection_id, version_ids,
  job_ids, keys) values ({n}, '{t}', 'same', 'canary-{t}', '[]', now(), '{{}}', {n}, '{{}}', '{{}}', '{{}}');
insert into penstock.findings (tenant, check_name, subject, document_id, sentence, advice)
  values ('{t}', 'c', {n}, {n}, 'canary-{t}', '');
insert into penstock.keys (tenant, name, prefix, digest, scopes)
  values ('{t}', 'canary-{t}', 'canary-{t}', sha256('{t}'), '{{read}}');
insert into penstock.late_versions (collection_id, version_id) values ({n}, {n});
insert into penstock.inbox (id, tenant, source, message_id, digest, payload)
  values ({n}, '{t}', 'canary-{t}', 'same', sha256('same'), '{{}}');
insert into penstock.inbox_blobs (message, blob_id, tenant) values ({n}, {n}, '{t}');
insert into penstock.sources (name, tenant) values ('canary-{t}', '{t}');
insert into penstock.packets (version_id, document_id, tenant, digest) values ({n}, {n}, '{t}', sha256('same'));
insert into penstock.packet_documents (version_id, place, name) values ({n}, 0, 'canary-{t}');
insert into penstock.packet_parts (version_id, first_page, last_page, label, confidence) values ({n}, 1, 1, 'canary-{t}', 1);
insert into penstock.crawls (id, tenant, collection_id, url, hosts, depth, max_pages, job_id)
  values ({n}, '{t}', {n}, 'https://canary-{t}/', '{{canary-{t}}}', 1, 1, {n});
insert into penstock.crawl_pages (crawl, tenant, url, depth) values ({n}, '{t}', 'https://canary-{t}/', 0);
insert into penstock.streams (id, tenant, name, last) overriding system value values ({n}, '{t}', 'canary-{t}', 0);
insert into penstock.messages (tenant, stream_id, seq, message_id, author, text)
  values ('{t}', {n}, 1, 'same', '', 'canary-{t}');
insert into penstock.memos (id, tenant, stream_id, text, kind, confidence, words, llm, job_id) overriding system value
  values ({n}, '{t}', {n}, 'canary-{t}', 'fact', 1, '', 'main', 1);
insert into penstock.memo_messages (tenant, memo_id, stream_id, seq) values ('{t}', {n}, {n}, 1);
insert into penstock.extractions (id, tenant, collection_id, document_id, version_id, config, llm, embedder, job_id)
  overriding system value values ({n}, '{t}', {n}, {n}, {n}, 'canary-{t}', 'main', 'static', 1);
insert into penstock.extraction_windows (version_id, config, ordinal, answer, tokens_in, tokens_out, cost)
  values ({n}, 'canary-{t}', 0, '{{}}', 1, 1, 0);
insert into penstock.facts (id, tenant, collection_id, version_id, extraction_id, ordinal, kind, statement, quote, page,
  start, stop, confidence, words) overriding system value
  values ({n}, '{t}', {n}, {n}, {n}, 0, 'statement', 'canary-{t}', 'canary-{t}', 1, 0, 8, 1, 'canary');
insert into penstock.entities (id, tenant, collection_id, type, key, name) overriding system value
  values ({n}, '{t}', {n}, 'person', 'canary-{t}', 'canary-{t}');
insert into penstock.mentions (fact_id, entity_id, role) values ({n}, {n}, 'about');
insert into penstock.unpublished (version_id, tenant, document_id, head_id, place, model, model_turn, found)
  values ({n}, '{t}', {n}, {n}, 0, 'static', 0, '{{"title": "canary-{t}"}}');
insert into penstock.leaving_points (version_id, collection_id) values ({n}, {n});
"""

VECTORS = """
insert into penstock.vectors_static (version_id, ordinal, collection_id, embedding)
  values ({n}, 0, {n}, array_fill({n}, array[256])::vector::halfvec);
insert into penstock.folded_vectors_static select * from penstock.vectors_static where version_id = {n};
"""

# Tables with a column of these names hold something of a tenant, and need a policy.
OWNED = """
select relname, bool_and(relrowsecurity and relforcerowsecurity) as guarded,
  count(*) filter (where attname = 'tenant') > 0 as named
from pg_class join pg_attribute on attrelid = pg_class.oid
where relnamespace = 'penstock'::regnamespace and relkind in ('r', 'p')
  and attname in ('tenant', 'version_id', 'collection_id', 'document_id') and not attisdropped
group by relname order by relname
"""
# Tables that need none, and why. Add one here only with a reason that a stranger would accept.
EXCEPTIONS: dict[str, str] = {}


@pytest.fixture
async def filled(database: Database) -> AsyncIterator[Database]:
    """Tenants a and b, with one row each in every table that belongs to a tenant."""
    async with database.pool.transaction() as tx:
        for number, tenant in enumerate("ab", 1):
            await tx.execute((FILL + VECTORS).format(n=number, t=tenant))
    yield database


async def owned(database: Database) -> list[Any]:
    return await database.pool.repeat(lambda session: session.fetch(OWNED))


async def rows(database: Database, table: str) -> list[str]:
    """As text, for who is asking."""
    found = await database.pool.repeat(
        lambda session: session.fetch(f"select to_jsonb(t)::text as row from penstock.{table} as t order by 1")
    )
    return [row["row"] for row in found]


async def names(pool: Pool) -> list[str]:
    found = await pool.repeat(lambda session: session.fetch("select name from penstock.documents order by id"))
    return [row["name"] for row in found]


async def test_every_table_of_a_tenant_has_a_policy(database: Database) -> None:
    assert database.pool.guarded
    bare = {row["relname"] for row in await owned(database) if not row["guarded"]}
    assert bare == EXCEPTIONS.keys(), (
        f"{sorted(bare ^ EXCEPTIONS.keys())}: a table with what belongs to a tenant calls penstock.guard in its migration (see "
        "0008_access.sql), or is in EXCEPTIONS with a reason."
    )
    policies = await database.pool.repeat(
        lambda session: session.fetch(
            "select tablename, policyname, roles::text from pg_policies where schemaname = 'penstock'"
        )
    )
    found = {(row["tablename"], row["policyname"], row["roles"]) for row in policies}
    for row in await owned(database):
        if row["relname"] not in EXCEPTIONS:
            assert (row["relname"], "request", "{penstock_request}") in found
            assert (row["relname"], "fleet", "{penstock_fleet}") in found
    assert all(roles in {"{penstock_request}", "{penstock_fleet}"} for _, _, roles in found), "none is for everybody"


async def test_nothing_of_another_is_seen(filled: Database) -> None:
    for table in [row["relname"] for row in await owned(filled)]:
        everything = await rows(filled, table)
        assert len(everything) == 2, f"{table}: add a row of it to FILL, so that this test means something"
        with only("b"):
            [mine] = await rows(filled, table)
        assert mine in everything, table
        assert "canary-a" not in mine, table
        with only("c"):
            assert await rows(filled, table) == [], table


@pytest.mark.parametrize(
    "statement", ["update penstock.{table} set {column} = {column}", "delete from penstock.{table}"]
)
async def test_nothing_of_another_is_changed(filled: Database, statement: str) -> None:
    before = {}
    for table in [row["relname"] for row in await owned(filled)]:
        with only("a"):
            before[table] = await rows(filled, table)
        assert len(before[table]) == 1, table
    for table in before:
        column = await filled.pool.repeat(
            lambda session, table=table: session.fetchval(  # type: ignore[misc]
                "select attname from pg_attribute where attrelid = ('penstock.' || $1)::regclass and attnum > 0 and "
                "attidentity = '' and not attisdropped order by attnum desc limit 1",
                table,
            )
        )
        with only("b"), contextlib.suppress(asyncpg.InsufficientPrivilegeError, asyncpg.ForeignKeyViolationError):
            async with filled.pool.transaction() as tx:
                tag = await tx.execute(statement.format(table=table, column=column))
                assert int(tag.split()[-1]) <= 1, table
    for table, untouched in before.items():
        with only("a"):
            assert await rows(filled, table) == untouched, f"{table}: what a has is as it was"


async def test_nothing_of_b_becomes_another_s(filled: Database) -> None:
    attempts = [
        "insert into penstock.documents (tenant, collection_id, name) values ('a', 1, 'planted')",
        "insert into penstock.events (tenant, collection_id, document_id, event) values ('a', 1, 1, 'planted')",
        "insert into penstock.keys (tenant, name, prefix, digest, scopes) values ('a', 'x', 'x', sha256('x'), '{admin}')",
        "insert into penstock.tallies (collection_id, documents, chunks, words) values (1, -1, -1, -1)",
        "insert into penstock.hidden_versions (version_id, collection_id) values (77, 1)",
        "update penstock.documents set tenant = 'a'",
        "update penstock.collections set tenant = 'a'",
        "update penstock.keys set tenant = 'a', scopes = '{admin}'",
    ]
    for attempt in attempts:
        with only("b"), pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
            async with filled.pool.transaction() as tx:
                await tx.execute(attempt)
    for attempt in (
        "insert into penstock.pages values (1, 2, 'planted')",
        "insert into penstock.chunks values (1, 2, 1, 0, 1, '', 'planted')",
        "update penstock.pages set text = 'planted'",
        "delete from penstock.postings",
        "truncate penstock.documents cascade",
        "drop table penstock.documents",
        "alter table penstock.documents disable row level security",
        "create policy mine on penstock.documents using (true)",
        "select * from penstock.signing_keys",
        "select secret from penstock.signing_keys",
        "insert into penstock.signing_keys (id, secret) values ('x', sha256('x'))",
        "update penstock.migrations set name = ''",
        "select content from penstock.checkpoints",
    ):
        with only("b"), pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with filled.pool.transaction() as tx:
                pytest.fail(f"{attempt}: {await tx.execute(attempt)}")


async def test_a_name_is_no_sql() -> None:
    for name in ("", "A", "a'; reset role; --", "a b", "ä", "a" * 64, "-a", "a\n", "a;", "*"):
        with pytest.raises(BadValue, match="cannot be called"):
            check_tenant(name)
        with pytest.raises(BadValue), only(name):
            pytest.fail("it was let in")
    assert check_tenant("a" * 63) == "a" * 63


# -- one connection, several tenants ------------------------------------------------------------------------------


async def one_by_one(pool: Pool) -> None:
    """The right rows for whoever comes next, whatever happened before on the connection."""
    for tenant in ("b", "a", "b"):
        with only(tenant):
            assert await names(pool) == [f"canary-{tenant}"]
            async with pool.session() as session:
                assert await session.fetchval("select current_user") == "penstock_request"
            with all_tenants():
                assert await names(pool) == ["canary-a", "canary-b"]
        assert await names(pool) == ["canary-a", "canary-b"]
        with only(tenant), pytest.raises(asyncpg.DivisionByZeroError):
            async with pool.transaction() as tx:
                await tx.execute("select 1/0")
        assert await names(pool) == ["canary-a", "canary-b"]
        with only(tenant), pytest.raises(ZeroDivisionError):
            async with pool.transaction() as tx:
                assert await tx.fetchval("select count(*) from penstock.documents") == 1
                raise ZeroDivisionError
        assert await names(pool) == ["canary-a", "canary-b"]
        with only(tenant):
            async with pool.transaction() as tx, tx.transaction():  # a savepoint
                assert await tx.fetchval("select count(*) from penstock.documents") == 1
    async with pool.session() as session:
        assert await session.fetchval("select current_user") != "penstock_request"


@pytest.mark.parametrize("pooled", [False, True])
async def test_a_connection_goes_from_hand_to_hand(filled: Database, database_url: DatabaseUrl, pooled: bool) -> None:
    """Behind a pooler, each transaction may meet another server: all that counts is said in it."""
    settings = PoolSettings(size=1, warm=1)
    pool = Pool(lambda: connect(database_url, settings, "test", pooled=pooled), settings, pooled=pooled)
    await pool.open()
    pool.guarded = await pool.repeat(is_guarded)
    assert pool.guarded
    try:
        await one_by_one(pool)
    finally:
        await pool.close()


async def test_cancelled_at_any_moment(filled: Database, database_url: DatabaseUrl) -> None:
    """Also in the middle of the statement that takes the role."""
    settings = PoolSettings(size=1, warm=1)
    pool = Pool(lambda: connect(database_url, settings, "test"), settings)
    await pool.open()
    pool.guarded = True
    asyncio.get_running_loop().set_exception_handler(
        lambda *_: None
    )  # asyncpg tells of each transaction that it rolls back
    draw, cut = random.Random(7), 0
    try:
        for turn in range(150):
            with only("b"):
                task = asyncio.create_task(names(pool))
            for _ in range(draw.randrange(12)):
                await asyncio.sleep(0)
            if turn % 3 == 0:
                await asyncio.sleep(draw.random() / 500)
            task.cancel()
            try:
                assert await task == ["canary-b"]
            except asyncio.CancelledError:
                cut += 1
            if turn % 2:
                with only("a"):
                    assert await names(pool) == ["canary-a"]
            else:
                assert await names(pool) == ["canary-a", "canary-b"]
    finally:
        await pool.close()
    assert 20 < cut < 150


async def test_fifty_tasks_on_three_connections(filled: Database, database_url: DatabaseUrl) -> None:
    settings = PoolSettings(size=3, warm=3, acquire_timeout=timedelta(seconds=30))
    pool = Pool(lambda: connect(database_url, settings, "test"), settings)
    await pool.open()
    pool.guarded = True
    expected = {"a": ["canary-a"], "b": ["canary-b"], "": ["canary-a", "canary-b"]}

    async def ask(tenant: str) -> None:
        for _ in range(10):
            if not tenant:
                assert await names(pool) == expected[tenant]
                continue
            with only(tenant):
                inner = asyncio.create_task(names(pool))  # belongs to the tenant, too
                assert await names(pool) == expected[tenant]
                assert await inner == expected[tenant]
                async with pool.transaction() as tx:
                    await tx.execute("update penstock.documents set changed_at = penstock.now()")
                    assert (
                        await tx.fetchval("select string_agg(name, ',') from penstock.documents") == expected[tenant][0]
                    )

    try:
        async with asyncio.TaskGroup() as group:
            for number in range(50):
                group.create_task(ask("ab"[number % 2] if number % 5 else ""))
    finally:
        await pool.close()


# -- a user who may not make roles --------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def plain_role(database_url: DatabaseUrl, options: str) -> AsyncIterator[tuple[DatabaseUrl, Any]]:
    """A role that is no superuser, with an empty database of its own; and a connection that may do everything."""
    admin = await asyncpg.connect(database_url.reveal())
    name = f"plain_{await admin.fetchval('select current_database()')}"
    await admin.execute(f"create role {name} login password 'plain' {options}")
    await admin.execute(f"create database {name} owner {name}")
    there = await asyncpg.connect(database_url.with_database(name).reveal())
    await there.execute("create extension vector")
    url = database_url.with_database(name).reveal().replace(f"penstock:{database_url.password}@", f"{name}:plain@")
    try:
        yield DatabaseUrl(url), there
    finally:
        await there.close()
        await admin.execute(f"drop database if exists {name} with (force)")
        await admin.execute(f"drop role {name}")
        await admin.close()


async def test_without_the_right_to_make_roles(database_url: DatabaseUrl, settings: Settings) -> None:
    """Everything works, without the net; the pool knows it. The roles are there, for the other databases of the server."""
    async with (
        plain_role(database_url, "nocreaterole") as (url, _),
        open_database(settings.model_copy(update={"database_url": url}), role="test") as database,
    ):
        assert not database.pool.guarded
        async with database.pool.transaction() as tx:
            await tx.execute(FILL.format(n=1, t="a"))
        await prepare_model(database, "static", 256)
        with only("b"):  # nothing stands in for the net, and nothing breaks
            assert await names(database.pool) == ["canary-a"]


async def test_who_made_the_roles_and_is_no_superuser(database_url: DatabaseUrl, settings: Settings) -> None:
    """PostgreSQL lets the maker of a role give it away, not take it: it has to be given to itself first."""
    async with plain_role(database_url, "createrole") as (url, there):
        role = await there.fetchval("select current_database()")
        for each in ("penstock_fleet", "penstock_request"):
            await there.execute(f"grant {each} to {role} with admin true, inherit false, set false")
        async with open_database(settings.model_copy(update={"database_url": url}), role="test") as database:
            assert database.pool.guarded
            async with database.pool.transaction() as tx:
                await tx.execute(FILL.format(n=1, t="a"))
            assert await names(database.pool) == ["canary-a"]
            with only("b"):
                assert await names(database.pool) == []
