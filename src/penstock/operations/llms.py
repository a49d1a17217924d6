"""What `doctor` says about language models: nothing, unless something waits for one that is not there.

The SQL is in llms.sql.
"""

from asyncpg import Record

from penstock.database import Session, statements
from penstock.engine.census import Waiting
from penstock.engine.wording import counted
from penstock.operations.finding import Finding
from penstock.pipelines.completing import KIND

sql = statements(__file__)

CONFIGURE = "export PENSTOCK_LLMS__MAIN__URL=https://… PENSTOCK_LLMS__MAIN__MODEL=…  # then restart the workers"


async def examine_llms(session: Session, lanes: list[Waiting], workers: list[Record]) -> list[Finding]:
    """Jobs that cannot ask, and requests for a model that no live worker knows."""
    row = await sql.waiting_for_llm.first(session)
    count, oldest = (row["count"], row["oldest"]) if row is not None else (0, None)
    asked: dict[str, int] = {}
    for lane in lanes:
        if workers and lane.kind.startswith(f"{KIND}.") and not (lane.open or lane.paused or lane.shut):
            name = lane.kind.removeprefix(f"{KIND}.")
            asked[name] = asked.get(name, 0) + lane.depth
    if not count and not asked:
        return []
    parts = [f"{counted(number, 'request')} for {name}" for name, number in sorted(asked.items())]
    if count:
        parts.insert(0, f"{counted(count, 'job')}, of which job {oldest} is the oldest")
    said = (
        f"A language model is waited for, and no live worker has it in its settings: {'; '.join(parts)}. "
        "Add a table [llms.NAME] with its url and model."
    )
    return [Finding("no-llm", said, CONFIGURE, {"jobs": count, "oldest": oldest, "requests": asked})]
