"""`doctor --fix`: applies the fixes that are safe without a person, and reports each.

A fix is safe if it changes no job, no document and no decision of an operator: vacuuming and analyzing tables, the policies
that separate tenants, schedules that no code declares any more, and running the checks now. Closing a breaker, redriving
dead jobs, ending a pause, a process or a transaction are left to a person.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from penstock.database import Session, Statement, reach_database, statements
from penstock.engine import remove_schedule, run_schedule
from penstock.operations.doctor.finding import Finding
from penstock.settings import Settings

sql = statements(__file__)

LONG = 3600.0  # seconds that a vacuum of a large table may take


@dataclass(frozen=True)
class AppliedFix:
    finding: Finding
    said: str


async def fix(settings: Settings, findings: Iterable[Finding]) -> list[AppliedFix]:
    """Fix those that can be, on a direct connection: a pooler would not wait for a vacuum."""
    fixable = [finding for finding in findings if finding.fixable]
    if not fixable:
        return []
    async with reach_database(settings, migrating=False) as reached:
        session = await reached.address.open_session("doctor", direct=True)
        try:
            await session.execute("set statement_timeout = 0")
            return [AppliedFix(finding, await FIXES[finding.name](session, finding)) for finding in fixable]
        finally:
            session.terminate()


async def _vacuum(session: Session, finding: Finding) -> str:
    await _execute(session, sql.vacuum, finding)
    return f"Vacuumed the table {finding.evidence['name']}."


async def _analyze(session: Session, finding: Finding) -> str:
    await _execute(session, sql.analyze, finding)
    return f"Refreshed the statistics of the table {finding.evidence['name']}."


async def _let_vacuum(session: Session, finding: Finding) -> str:
    await _execute(session, sql.let_vacuum, finding)
    return f"Turned autovacuum on again for the table {finding.evidence['name']}."


async def _execute(session: Session, statement: Statement, finding: Finding) -> None:
    """Run the statement that is made for the table of the finding, if the table exists."""
    row = await statement.first(session, name=finding.evidence["name"])
    if row is not None:
        await session.execute(row["statement"], timeout=LONG)


async def _remove(session: Session, finding: Finding) -> str:
    name, fairness_key = finding.evidence["name"], finding.evidence["fairness_key"]
    removed = await remove_schedule(session, name, fairness_key)
    removed_by = "Removed" if removed else "Another process has removed"
    return f"{removed_by} the retired schedule {name} of the fairness key {fairness_key}."


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
