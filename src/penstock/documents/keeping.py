"""Rows of blobs: bytes that are in the store become known, or turn out to be there already.

Content that the tenant has already is kept once: the row of the same digest is locked against the collector until the caller's
commit, and the caller's own bytes are then garbage. The SQL is in keeping.sql.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.blobs import Stored
from penstock.database import Session, statements

sql = statements(__file__)


@dataclass(frozen=True, slots=True)
class Kept:
    """The row of some bytes; `key` is where they are, which need not be where they were just written."""

    id: int
    key: str
    digest: bytes
    size: int


async def keep_blobs(tx: Session, stored: Sequence[Stored], *, tenant: str) -> dict[bytes, Kept]:
    """Rows for these bytes, by digest, in the caller's transaction. A digest that comes twice is kept once."""
    wanted = {each.digest: each for each in stored}
    kept: dict[bytes, Kept] = {}
    while missing := [wanted[digest] for digest in sorted(wanted.keys() - kept.keys())]:
        # In the order of their digests, so that two archives with the same members do not wait in a circle. Who loses the
        # race for a new row sees the winner's in the next round.
        rows = await sql.keep_blobs(
            tx,
            tenant=tenant,
            keys=[each.key for each in missing],
            digests=[each.digest for each in missing],
            sizes=[each.size for each in missing],
        )
        kept |= {row["digest"]: Kept(**row) for row in rows}
    return kept
