"""What `doctor` says about facts: documents that were read only in part. The SQL is in reading.sql."""

from shlex import quote

from penstock.database import Session, statements
from penstock.engine.wording import counted
from penstock.operations.finding import Finding

sql = statements(__file__)


async def examine_reading(session: Session) -> list[Finding]:
    """By collection: how many documents have windows without an answer, and why one of them has."""
    return [
        Finding(
            "facts-partial",
            f"{counted(row['documents'], 'document')} of the collection {row['collection']} "
            f"{'was' if row['documents'] == 1 else 'were'} read only in part, document {row['document']} because: "
            f"{str(row['reason']).rstrip('.')}. What is missing is asked for alone.",
            f"penstock extract {quote(row['collection'])}",
            {"collection": row["collection"], "documents": row["documents"], "document": row["document"]},
        )
        for row in await sql.partly_read(session)
    ]
