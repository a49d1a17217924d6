"""Keys: what they look like, what is kept of them, and which cannot be made."""

from datetime import timedelta
from typing import Any

import pytest

from penstock.access import any_usable_key, create_key, list_keys, revoke_key
from penstock.access.keys import make_key, read_key
from penstock.database import Database
from penstock.documents import create_collection
from penstock.errors import BadValue, NotFound


@pytest.mark.parametrize("name", ["a\0b", "\udae0", "a\nb"])
async def test_a_collection_that_cannot_be(database: Database, name: str) -> None:
    with pytest.raises(NotFound, match="is not valid: name collections that exist"):
        await create_key(database, "ann", collections=[name])


async def test_a_key_is_shown_once(database: Database) -> None:
    assert not await database.pool.repeat(any_usable_key)
    made = await create_key(database, "ann", scopes=["write", "read"], created_by="the test")
    assert made.key is not None
    assert read_key(made.key.text) == made.key
    assert made.key.text not in repr(made), "printing it shows the prefix alone"
    assert await database.pool.repeat(any_usable_key)
    [listed] = await list_keys(database)
    assert (listed.key, listed.prefix, listed.scopes) == (None, made.prefix, ["read", "write"])
    assert (listed.name, listed.tenant, listed.created_by, listed.usable) == ("ann", "default", "the test", True)
    kept = await database.pool.repeat(
        lambda session: session.fetchval("select to_jsonb(k)::text from penstock.keys as k")
    )
    assert made.key.text[12:] not in kept
    assert made.key.digest.hex() in kept


def test_keys_differ_and_have_their_form() -> None:
    keys = {make_key().text for _ in range(1000)}
    assert len(keys) == 1000
    assert len({key[3:11] for key in keys}) == 1000
    for key in keys:
        assert read_key(key) is not None
        assert not key[3].isdigit(), "a prefix is no number"
        for wrong in (
            key[:-1],
            key + "A",
            f" {key}",
            f"{key}\n",
            key.upper(),
            key.replace("pk_", "sk_"),
            key[:20] + "ä" + key[21:],
        ):
            assert read_key(wrong) is None, wrong


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ({"name": ""}, "needs a name"),
        ({"name": " "}, "needs a name"),
        ({"name": "a\nb"}, "needs a name"),
        ({"name": "ä" * 101}, "needs a name"),
        ({"scopes": []}, "scopes are some of"),
        ({"scopes": ["root"]}, "scopes are some of"),
        ({"collections": []}, "names at least one"),
        ({"collections": ["files"], "scopes": ["admin"]}, "administration"),
        ({"expires_in": timedelta(0)}, "expires in the future"),
        ({"expires_in": timedelta(days=4000)}, "expires in the future"),
        ({"tenant": "Mill"}, "cannot be called"),
        ({"tenant": "x'; drop table penstock.keys; --"}, "cannot be called"),
    ],
)
async def test_keys_that_cannot_be_made(database: Database, wish: dict[str, Any], said: str) -> None:
    with pytest.raises(BadValue, match=said):
        await create_key(database, **({"name": "ann"} | wish))
    assert await list_keys(database) == []


async def test_collections_of_the_tenant_alone(app: Any) -> None:
    await create_collection(app, "files", tenant="rival")
    with pytest.raises(NotFound, match="Collection files does not exist"):
        await create_key(app.database, "ann", tenant="mill", collections=["files"])
    made = await create_key(app.database, "ann", tenant="rival", collections=["files"])
    assert made.collections == ["files"]


async def test_revoking(database: Database) -> None:
    first, second, other = [
        await create_key(database, name, tenant=tenant) for name, tenant in (("a", "x"), ("b", "x"), ("c", "y"))
    ]
    with pytest.raises(NotFound, match=r"Key \d+ does not exist"):
        await revoke_key(database, str(other.id), tenant="x")
    with pytest.raises(NotFound):
        await revoke_key(database, other.prefix, tenant="x")
    gone = await revoke_key(database, str(first.id), tenant="x")
    assert gone.revoked_at is not None
    assert not gone.usable
    assert (await revoke_key(database, f"pk_{first.prefix}")).revoked_at == gone.revoked_at, "again changes nothing"
    assert second.key is not None
    assert not (await revoke_key(database, second.key.text)).usable, "the whole key names itself, too"
    assert [each.usable for each in await list_keys(database)] == [False, False, True]
    assert [each.name for each in await list_keys(database, tenant="y")] == ["c"]


async def test_only_what_was_meant_is_revoked(database: Database) -> None:
    """A number is no prefix, and what begins like a prefix is none."""
    made = await create_key(database, "ann")
    for which in (
        made.prefix + "x",
        made.prefix[:7],
        "",
        "0",
        "-1",
        "9" * 30,
        "١",
        f"pk_{made.prefix}_",
        "pk_",
        made.prefix.upper() + "_",
    ):
        with pytest.raises(NotFound):
            await revoke_key(database, which)
    await database.pool.repeat(lambda session: session.execute("update penstock.keys set prefix = '23456789'"))
    with pytest.raises(NotFound):
        await revoke_key(database, "2345678923", tenant="default")
    assert (await list_keys(database))[0].usable


async def test_the_answer_does_not_repeat_a_key(database: Database) -> None:
    unknown = make_key()
    with pytest.raises(NotFound) as refused:
        await revoke_key(database, unknown.text)
    assert unknown.text[12:16] not in str(refused.value)
