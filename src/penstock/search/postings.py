"""Postings: where each term is. New ones are short rows of a tail; folded ones are long rows, a few for each term.

A term's entries move from the tail to its long row in one transaction, and a question reads both in one statement: it sees
each entry once, whatever is being folded. Removing and folding in one collection take turns, by a lock of the transaction:
otherwise an entry could move behind the back of the one who removes it. The SQL is in postings.sql.
"""

from penstock.database import Database, Session, statements
from penstock.search.entries import BUCKETS, unpack, versions_of, without

sql = statements(__file__)

BITE = 4_000  # rows that are folded in one transaction
TOGETHER = 10_000  # batches that are folded together: more of them change each long row less often
SLICE = 500  # terms that are removed in one statement
LONG = 32_768  # bytes of a part; then the next one begins


async def take_turn(tx: Session, collection: int) -> None:
    """Wait until nobody else folds or removes in this collection; then nobody does until the caller's commit."""
    await sql.take_turn.run(tx, collection=collection)


async def remove_postings(tx: Session, version: int, most: int) -> int:
    """Remove the postings of a version for about so many terms; how many terms. It is the caller's turn."""
    removed = 0
    while removed < most:
        batch = await sql.next_batch.first(tx, version=version)
        if batch is None:
            break
        collection = batch["collection_id"]
        terms = batch["terms"].split("\n")
        terms, left = terms[:SLICE], terms[SLICE:]
        # The tail first: what a fold has moved before our turn is in the long rows when we look there.
        await sql.remove_from_tail.run(
            tx, collection=collection, buckets=BUCKETS, version=version, first=batch["first"]
        )
        if batch["place"] != "tail":
            await _remove_from_folded(tx, collection, terms, version)
        await sql.shorten_batch.run(tx, version=version, first=batch["first"], left="\n".join(left))
        removed += len(terms)
    return removed


async def _remove_from_folded(tx: Session, collection: int, terms: list[str], version: int) -> None:
    gone = versions_of([version])
    changed = []
    for row in await sql.folded_with(tx, collection=collection, terms=terms, version=version):
        entries = unpack(row["entries"])
        kept = without(entries, gone)
        if len(kept) < len(entries):
            changed.append((row["term"], row["part"], kept.tobytes()))
    if changed:
        names, parts, contents = zip(*changed, strict=True)
        await sql.replace_folded.run(
            tx, collection=collection, terms=list(names), parts=list(parts), contents=list(contents)
        )


async def fold_postings(database: Database, collection: int) -> int:
    """Fold the tail of a collection in short transactions; how many rows were moved. It can be stopped anywhere."""
    moved = 0
    while versions := await _begin_folding(database, collection):
        moved += await _fold(database, collection, versions)
    return moved


async def _begin_folding(database: Database, collection: int) -> list[int]:
    async with database.pool.transaction() as tx:
        await take_turn(tx, collection)
        rows = await sql.begin_folding(tx, collection=collection, most=TOGETHER)
        return [row["version_id"] for row in rows]


async def _fold(database: Database, collection: int, versions: list[int]) -> int:
    moved, bucket = 0, 0
    while bucket < BUCKETS:
        async with database.pool.transaction() as tx:
            await take_turn(tx, collection)
            bite = await sql.fold_bucket.value(
                tx, collection=collection, bucket=bucket, versions=versions, most=BITE, long=LONG
            )
        moved += bite
        if bite < BITE:
            bucket += 1
    async with database.pool.transaction() as tx:
        await sql.end_folding.run(tx, collection=collection, versions=versions)
    return moved
