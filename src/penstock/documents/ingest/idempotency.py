"""`Idempotency-Key`: a request that is sent again gets the answer of the first one, and does nothing.

The key is claimed before the upload and renewed while that lasts. The answer is kept in the transaction that does the work, so
that one is never there without the other. A request that fails frees the key; the claim of a process that died expires. Answers
are kept for a day.
"""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from penstock.database import Database, Session, statements
from penstock.errors import BadValue, DatabaseTrouble, DatabaseUnreachable, KeyInFlight, KeyReused
from penstock.telemetry import log

sql = statements(__file__)

KEPT = timedelta(days=1)
DEAD_AFTER = timedelta(minutes=3)  # without a renewal
RENEW_EVERY = 45.0  # seconds
KEY_MAX = 255


@dataclass(slots=True)
class Claim:
    """A key that this request holds, or the answer of the first request."""

    tenant: str
    route: str
    key: str
    holder: str = field(default_factory=lambda: secrets.token_hex(8))
    fingerprint: bytes | None = None
    answer: dict[str, Any] | None = None  # not None: it was answered before
    settled: bool = False  # and committed

    def check(self, fingerprint: bytes) -> dict[str, Any]:
        """The kept answer, for the same request."""
        if self.fingerprint != fingerprint or self.answer is None:
            raise KeyReused(
                f"The Idempotency-Key {self.key[:50]} came with another request before: use a new key for each upload."
            )
        return self.answer

    async def settle(self, tx: Session, fingerprint: bytes, status: int, answer: dict[str, Any]) -> None:
        """Keep the answer, in the transaction of the work. KeyInFlight if the claim has expired meanwhile."""
        mine = await sql.settle_key.value(
            tx, **self._key, fingerprint=fingerprint, status=status, answer=json.dumps(answer)
        )
        if mine is None:
            raise _in_flight(self.key)

    @property
    def _key(self) -> dict[str, str]:
        return {"tenant": self.tenant, "route": self.route, "key": self.key, "holder": self.holder}

    async def renew_for_ever(self, database: Database) -> None:
        while True:
            await asyncio.sleep(RENEW_EVERY)
            try:
                await database.pool.repeat(sql.renew_key.run, **self._key)
            except (DatabaseTrouble, DatabaseUnreachable) as error:
                log.warning("an idempotency key was not renewed", error=str(error))

    async def free(self, database: Database) -> None:
        await database.pool.repeat(sql.free_key.run, **self._key)


@asynccontextmanager
async def claim_key(database: Database, *, tenant: str, route: str, key: str) -> AsyncIterator[Claim]:
    """Hold the key while the block lasts; it is freed again unless the block has recorded its answer."""
    claim = Claim(tenant, route, _check_key(key))
    row = await database.pool.repeat(sql.claim_key.first, **claim._key, dead_after=DEAD_AFTER, kept=KEPT)
    if row is None or (row["status"] is None and row["holder"] != claim.holder):
        raise _in_flight(key)
    if row["status"] is not None:
        claim.fingerprint, claim.answer = row["fingerprint"], json.loads(row["answer"])
        yield claim
        return
    renewing = asyncio.create_task(claim.renew_for_ever(database), name="idempotency-key")
    try:
        yield claim
    finally:
        renewing.cancel()
        if not claim.settled:
            await asyncio.shield(claim.free(database))


async def sweep_keys(session: Session, batch: int = 1000) -> int:
    """Remove answers that are a day old, and expired claims; how many."""
    return len(await sql.sweep_keys(session, kept=KEPT, batch=batch))


def _check_key(key: str) -> str:
    if not key.isprintable() or not key.isascii() or not 0 < len(key) <= KEY_MAX:
        raise BadValue(f"An Idempotency-Key has 1 to {KEY_MAX} printable ASCII characters: a UUID, for example.")
    return key


def _in_flight(key: str) -> KeyInFlight:
    return KeyInFlight(
        f"The first request with the Idempotency-Key {key[:50]} is still under way: ask again in a moment."
    )
