"""The keyring: who a key is, remembered for a second and no longer than the key is good."""

import asyncio
import time
from datetime import timedelta

import pytest

from penstock.access import Keyring, create_key, list_keys, revoke_key
from penstock.access.keys import GOOD_FOR, MOST
from penstock.database import Database
from penstock.errors import BadKey


async def move(database: Database, shift: str) -> None:
    await database.pool.repeat(lambda session: session.execute(f"update penstock.test_clock set shift = '{shift}'"))


async def refused(keyring: Keyring, text: str) -> str:
    with pytest.raises(BadKey) as said:
        await keyring.find(text)
    return str(said.value)


async def test_who_it_is(database: Database) -> None:
    made = await create_key(database, "ann", tenant="mill", scopes=["read", "write"])
    assert made.key is not None
    found = await Keyring(database).find(made.key.text)
    assert (found.tenant, found.name, found.key_id, found.collections) == ("mill", "ann", made.id, None)
    assert (found.may("read"), found.may("write"), found.may("admin")) == (True, True, False)
    assert await Keyring(database).find_by_id(made.id) == found


async def test_what_is_no_key(database: Database) -> None:
    made = await create_key(database, "ann")
    assert made.key is not None
    text, keyring = made.key.text, Keyring(database)
    assert "form of a key" in await refused(keyring, "pk_x")
    assert "not known" in await refused(keyring, f"pk_aaaaaaaa_{text[12:]}")
    guess = text[:12] + "A" * 43
    assert await refused(keyring, guess) == await refused(keyring, f"pk_aaaaaaaa_{'A' * 43}"), (
        "a prefix is not confirmed"
    )
    assert (await list_keys(database))[0].used_at is None, "who guesses leaves no trace of use"
    await keyring.find(text)
    assert (await list_keys(database))[0].used_at is not None


async def test_revoked_within_a_second(database: Database) -> None:
    made = await create_key(database, "ann")
    assert made.key is not None
    keyring = Keyring(database)
    await keyring.find(made.key.text)
    await keyring.find_by_id(made.id)
    await revoke_key(database, str(made.id))
    began = time.monotonic()
    while True:
        try:
            await keyring.find(made.key.text)
        except BadKey as error:
            assert "revoked" in str(error)
            break
        assert time.monotonic() - began < GOOD_FOR + 0.5
        await asyncio.sleep(0.02)
    with pytest.raises(BadKey, match="revoked"):
        await keyring.find_by_id(made.id)
    with pytest.raises(BadKey):
        await keyring.find_by_id(4711)


async def test_expiry_is_by_the_database_s_clock(database: Database) -> None:
    made = await create_key(database, "ann", expires_in=timedelta(hours=1))
    assert made.key is not None
    await move(database, "59 minutes 59.7 seconds")
    keyring = Keyring(database)
    await keyring.find(made.key.text)
    began = time.monotonic()
    while time.monotonic() - began < 0.9:  # it was remembered for as long as it is good, not for a second
        try:
            await keyring.find(made.key.text)
        except BadKey as error:
            assert "expired" in str(error)
            break
        await asyncio.sleep(0.02)
    else:
        pytest.fail("it was good for longer than it is")
    await move(database, "0")
    await keyring.find(made.key.text)


async def test_it_does_not_grow_without_end(database: Database) -> None:
    made = await create_key(database, "ann")
    assert made.key is not None
    keyring = Keyring(database)
    found = await keyring.find(made.key.text)
    row = await database.pool.repeat(
        lambda session: session.fetchrow("select *, false as revoked, null::float8 as seconds_left from penstock.keys")
    )
    for number in range(MOST + 10):
        assert keyring._remember(number, row) == found
    assert len(keyring._known) == MOST
