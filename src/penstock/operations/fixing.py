"""`doctor --fix`: does what is safe to do without a person, and says what it did.

Safe is what changes neither jobs nor documents nor what anybody has decided: cleaning and measuring tables, the policies that
keep tenants apart, a schedule that no code declares any more, and having checks run now. Closing a breaker, redriving the dead,
resuming a pause, ending processes and transactions are for a person. The SQL is in fixing.sql.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from penstock.database import Session, reach_database, statements
from penstock.engine.schedules import remove_schedule, run_schedule
from penstock.operations.finding import Finding
from penstock.settings import Settings

sql = statements(__file__)

LONG = 3600.0  # seconds that cleaning a large table may take


@dataclass(frozen=True)
class Fixed:
    """What was done about a finding."""

    finding: Finding
    said: str


async def fix(settings: Settings, findings: Iterable[Finding]) -> list[Fixed]:
    """Those of them that can be; past any pooler, for cleaning a table takes longer than that would wait."""
    fixable = [finding for finding in findings if finding.fixable]
    if not fixable:
        return []
    async with reach_database(settings, migrating=False) as reached:
        session = await reached.address.open_session("doctor", direct=True)
        try:
            await session.execute("set statement_timeout = 0")
            return [Fixed(finding, await FIXES[finding.name](session, finding)) for finding in fixable]
        finally:
            session.terminate()


async def _vacuum(session: Session, finding: Finding) -> str:
    row = await sql.vacuum.first(session, name=finding.evidence["name"])
    if row is not None:
        await session.execute(row["statement"], timeout=LONG)
    return f"Vacuumed the table {finding.evidence['name']}."


async def _analyze(session: Session, finding: Finding) -> str:
    row = await sql.analyze.first(session, name=finding.evidence["name"])
    if row is not None:
        await session.execute(row["statement"], timeout=LONG)
    return f"Refreshed the statistics of the table {finding.evidence['name']}."


async def _let_vacuum(session: Session, finding: Finding) -> str:
    row = await sql.let_vacuum.first(session, name=finding.evidence["name"])
    if row is not None:
        await session.execute(row["statement"])
    return f"Turned autovacuum on again for the table {finding.evidence['name']}."


async def _remove(session: Session, finding: Finding) -> str:
    name, share = finding.evidence["name"], finding.evidence["share"]
    removed = await remove_schedule(session, name, share)
    return f"{'Removed' if removed else 'Somebody else has removed'} the retired schedule {name} of the share {share}."


async def _guard(session: Session, finding: Finding) -> str:
    await sql.guard_all.run(session)
    if await sql.is_guarded.value(session):
        return "Turned row-level security on for all tables."
    return "The roles penstock_fleet and penstock_request are not there: nothing could be done."


async def _run(session: Session, finding: Finding) -> str:
    name = finding.command.split()[-1]
    number = await run_schedule(session, name, "_system")
    if number is None:
        return f"There is no schedule {name}: start a worker that declares it."
    return f"Put job {number} of the schedule {name} in the queue."


FIXES: dict[str, Callable[[Session, Finding], Awaitable[str]]] = {
    "autovacuum-off": _let_vacuum,
    "bloat": _vacuum,
    "checks-stale": _run,
    "invariants-stale": _run,
    "schedule-retired": _remove,
    "statistics-stale": _analyze,
    "unguarded": _guard,
}
