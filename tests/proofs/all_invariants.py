"""The invariants of production and those that only a proof can know, over everything at once, in one statement."""

from pathlib import Path

from penstock.database.sql_files import SqlConnection, Statement, Statements
from penstock.operations.invariants import INVARIANTS
from penstock.operations.invariants import sql as production

OF_THE_ENGINE = INVARIANTS[:13]  # the next ones are about the server and about documents
PAGE = "$1::bigint[]"
EVERYTHING = """with everything as materialized (
  select array(
    select id from penstock.jobs union select id from penstock.job_history union select id from penstock.fanouts
    union select job_id from penstock.job_keys
  ) as ids
)
"""
OWN: Statement = Statements(Path(__file__).with_name("invariants.sql")).violations


def _together() -> str:
    texts = [OWN.text]
    for invariant in OF_THE_ENGINE:
        text = getattr(production, invariant.name).text
        assert (PAGE in text) == bool(invariant.over), invariant
        whole = text.replace(PAGE, "(select ids from everything)::bigint[]")
        texts.append(f"select said from (\n{whole}\n) as broken_{invariant.number}")
    return EVERYTHING + "\nunion all\n".join(texts)


TOGETHER = _together()


async def violations(session: SqlConnection) -> list[str]:
    """Everything that is broken, in sentences."""
    return [row["said"] for row in await session.fetch(TOGETHER)]
