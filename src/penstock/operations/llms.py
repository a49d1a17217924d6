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
        "Add a table [llms.NAME] with its url and model to the settings of the workers, or start one that has it:"
    )
    command = _start(min(asked, default="main"))
    return [Finding("no-llm", said, command, {"jobs": count, "oldest": oldest, "requests": asked})]


def _start(name: str) -> str:
    """A worker with this model; `…` is the reader's to fill in. `env` takes names that a shell does not."""
    prefix = f"PENSTOCK_LLMS__{name.upper()}__"
    return f"env '{prefix}URL=https://…' '{prefix}MODEL=…' penstock worker"
