"""The job that redrives dead letters for the API and the pages: one, then ten, then all, until the same failure returns.

    started = await product.redriving.start(Selection(fingerprint="8af7761f785a"))
    started.job                                             # its progress and its result tell how far it came

The stages are those of engine/redrive.py. The plan and the end of each stage are kept as steps, and a job is tried only if it
was not tried since the plan was made: whoever comes after a crash goes on in the stage that was under way, and repeats nothing.
Two redrives of the same cause are one job. It has a queue of its own: it waits for others, and must not be in their way.
"""

from dataclasses import dataclass
from typing import Any

from penstock.documents import Announcer
from penstock.engine import Context, Penstock
from penstock.engine.redrive import (
    Plan,
    Redriven,
    Selection,
    Stage,
    plan_redrive,
    run_stages,
    tell_stage,
    try_stage,
    watch_stage,
)

QUEUE = "redrive"
SHARE = "_system"
SLOTS = 4


@dataclass(frozen=True)
class Started:
    """The job that redrives, and how many it will try; no job if there is nothing to try."""

    job: int | None
    jobs: int
    created: bool = False  # False: it was under way already


class Redriving:
    """The kind of job, and how one is put in."""

    def __init__(self, app: Penstock, announcer: Announcer) -> None:
        self._app = app
        self._announcer = announcer
        self._kind = app.job(queue=QUEUE, timeout="3d", retries=10)(self.redrive_jobs)

    async def start(self, selection: Selection, *, force: bool = False) -> Started:
        """Raises NothingChanged unless forced, before anything is put in."""
        plan = await plan_redrive(self._app.database, selection, force=force)
        if not plan.attempts:
            return Started(None, 0)
        call = self._kind(ids=list(selection.ids), fingerprint=selection.fingerprint, kind=selection.kind)
        job = await self._app.enqueue(call, unique=selection.key, share=SHARE)
        return Started(job, len(plan.attempts), job.created)

    async def redrive_jobs(
        self, ctx: Context, ids: list[int], fingerprint: str | None = None, kind: str | None = None
    ) -> dict[str, Any]:
        """Go through the stages; what became of them, and the sentence that says it."""
        selection = Selection(tuple(ids), fingerprint, kind)

        async def make_plan() -> dict[str, Any]:
            return (await plan_redrive(self._app.database, selection, force=True)).as_json()

        plan = Plan.of_json(await ctx.step("plan", make_plan))
        total = len(plan.attempts)

        async def run(number: int, stage: list[int], left: int) -> Stage:
            said, before = tell_stage(stage, left), total - left - len(stage)

            async def ended(count: int) -> None:
                await ctx.progress(before + count, total, said)

            async def pass_through() -> dict[str, Any]:
                async with ctx.write() as tx:
                    await try_stage(tx, plan, stage)
                await ended(0)
                self._announcer.tell()
                return vars(await watch_stage(self._app.database, plan, stage, ended=ended))

            return Stage(**await ctx.step(f"stage {number}", pass_through))

        result: Redriven = await run_stages(plan, run)
        self._announcer.tell()
        return vars(result) | {"sentence": result.sentence}
