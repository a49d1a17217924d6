"""Deliberate faults in the engine, each with the tests that must notice it.

A mutant is a file, an old text, a new text, and tests. The old text occurs exactly once: in the file, or in the named
statement of a `.sql` file. `prove.py` applies one at a time to a copy of the checkout; a mutant that no longer applies, or
that survives its tests, is a failure. What a mutant stands for is in `why`.
"""

from dataclasses import dataclass
from pathlib import Path

ENGINE = "src/penstock/engine/"
FENCE = "and jobs.attempt = proof.attempt and jobs.worker_id = proof.worker_id"
FENCES = "tests/engine/test_fences.py::"
FLEET = "tests/engine/test_fleet.py::"
FANOUT = "tests/engine/test_fanout.py::"
EXPLORE = "tests/proofs/test_explore.py::"
ANY_OWNER = "where id = :id and :attempt::int is not null and :worker_id::bigint is not null"


class DoesNotApply(Exception):
    """The code has changed: write the mutant anew."""


@dataclass(frozen=True)
class Mutant:
    """One fault."""

    name: str
    why: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    statement: str = ""

    def apply(self, root: Path) -> None:
        """Change the copy at `root`."""
        path = root / ENGINE / self.file
        text = path.read_text()
        start, end = self._place(text)
        if text[start:end].count(self.old) != 1:
            where = f"the statement {self.statement} of {self.file}" if self.statement else self.file
            raise DoesNotApply(f"{self.name}: {where} has the old text {text[start:end].count(self.old)} times.")
        path.write_text(text[:start] + text[start:end].replace(self.old, self.new) + text[end:])

    def _place(self, text: str) -> tuple[int, int]:
        if not self.statement:
            return 0, len(text)
        head = f"-- name: {self.statement}\n"
        if text.count(head) != 1:
            raise DoesNotApply(f"{self.name}: {self.file} has no statement {self.statement}.")
        start = text.index(head)
        end = text.find("-- name: ", start + len(head))
        return start, end if end >= 0 else len(text)


MUTANTS = (
    # -- the fence ------------------------------------------------------------------------------------------------------
    Mutant(
        "settle-done-without-fence",
        "a zombie finishes the job of somebody else",
        "settle.sql",
        FENCE,
        "",
        (f"{FENCES}test_a_rescued_worker_cannot_settle",),
        "settle_done",
    ),
    Mutant(
        "settle-retry-without-fence",
        "a zombie takes the job away from the one who runs it now",
        "settle.sql",
        FENCE,
        "",
        (f"{FENCES}test_a_rescued_worker_cannot_settle",),
        "settle_retry",
    ),
    Mutant(
        "settle-bury-without-fence",
        "a zombie buries the job of somebody else",
        "settle.sql",
        FENCE,
        "",
        (f"{FENCES}test_a_rescued_worker_cannot_settle",),
        "settle_dead",
    ),
    Mutant(
        "settle-release-without-fence",
        "a zombie gives back what is not its own",
        "settle.sql",
        FENCE,
        "",
        (f"{FENCES}test_a_rescued_worker_cannot_settle",),
        "settle_requeue",
    ),
    Mutant(
        "fence-without-attempt",
        "an earlier attempt of the same worker counts as the present one",
        "settle.sql",
        "and jobs.attempt = proof.attempt and",
        "and",
        (f"{FENCES}test_a_second_attempt_of_the_same_worker_is_another_one",),
        "settle_done",
    ),
    Mutant(
        "fence-without-worker",
        "an attempt that was given back can still be settled",
        "settle.sql",
        "jobs.attempt = proof.attempt and jobs.worker_id = proof.worker_id",
        "jobs.attempt = proof.attempt",
        (f"{FENCES}test_a_released_attempt_cannot_settle",),
        "settle_done",
    ),
    Mutant(
        "finish-without-fence",
        "a zombie's effects are written before anybody asks whether it may",
        "settle.sql",
        "where id = :id and attempt = :attempt and worker_id = :worker_id",
        ANY_OWNER,
        ("tests/engine/test_settler.py::test_a_stale_finish_does_not_even_begin",),
        "hold_fence",
    ),
    Mutant(
        "finish-without-lock",
        "a rescue comes between the fence and the effects",
        "settle.sql",
        "\nfor no key update",
        "",
        (f"{FENCES}test_a_rescue_cannot_come_between_the_fence_and_the_finish",),
        "hold_fence",
    ),
    Mutant(
        "checkpoint-without-fence",
        "a zombie replaces what the next attempt has kept",
        "steps.sql",
        "where id = :id and attempt = :attempt and worker_id = :worker_id",
        ANY_OWNER,
        ("tests/engine/test_checkpoint.py::test_a_taken_over_attempt_keeps_nothing", f"{EXPLORE}test_step_zombie"),
        "keep_checkpoint",
    ),
    Mutant(
        "map-without-fence",
        "a zombie makes children a second time",
        "children.sql",
        "where id = :id and attempt = :attempt and worker_id = :worker_id",
        ANY_OWNER,
        (f"{FANOUT}test_a_stale_parent_makes_no_children",),
        "wait_for_children",
    ),
    Mutant(
        "progress-without-fence",
        "a zombie's progress is shown for the attempt of another one",
        "settle.sql",
        FENCE,
        "",
        (f"{FENCES}test_progress_of_a_stale_attempt_is_not_shown",),
        "settle_progress",
    ),
    Mutant(
        "attempt-not-increased",
        "two claims have the same proof",
        "claim.sql",
        "attempt = attempt + 1",
        "attempt = greatest(attempt, 1)",
        (f"{FENCES}test_a_second_attempt_of_the_same_worker_is_another_one",),
        "claim_jobs",
    ),
    Mutant(
        "quarantined-attempt-not-increased",
        "a zombie has the same proof as the one who runs its job again",
        "claim.sql",
        "attempt = attempt + 1",
        "attempt = greatest(attempt, 1)",
        (f"{FENCES}test_a_rescued_worker_cannot_settle", f"{EXPLORE}test_zombie"),
        "claim_quarantined",
    ),
    # -- once -----------------------------------------------------------------------------------------------------------
    Mutant(
        "effects-outside",
        "what a handler writes stays although its job is not done",
        "context.py",
        "async with runtime.pool.transaction() as tx:",
        "async with runtime.pool.session() as tx:",
        (f"{FENCES}test_a_finish_commits_effect_and_completion_together",),
    ),
    Mutant(
        "settled-before-says-no",
        "what was written by a COMMIT without an answer is taken for lost",
        "settle.sql",
        "where exists (\n  select from penstock.job_history",
        "where false and exists (\n  select from penstock.job_history",
        (f"{FENCES}test_settling_again_after_a_lost_answer_is_known_to_be_ours",),
        "settled_before",
    ),
    Mutant(
        "finish-forgets-to-look",
        "a finish whose COMMIT got no answer is a failure, although it is done",
        "context.py",
        "            if not await self.committed():\n                raise\n        self.finished = True",
        "            raise\n        self.finished = True",
        ("tests/scenarios/test_commit_cut.py::test_finish_knows_whether_it_has_committed",),
    ),
    Mutant(
        "claim-without-lock",
        "two workers take the same job",
        "claim.sql",
        "for update skip locked",
        "",
        (f"{EXPLORE}test_claim_claim",),
        "claim_jobs",
    ),
    Mutant(
        "tick-without-key",
        "a wrong next_at fires a tick again",
        "scheduler.sql",
        "where job_keys.until <= penstock.now()",
        "where true",
        ("tests/engine/test_scheduler.py::test_a_wrong_next_at_makes_no_second_job",),
        "fire_ticks",
    ),
    Mutant(
        "keys-never-released",
        "a unique key stays taken after its job is over",
        "settle.py",
        "if item.job.unique_key is not None and item.job.id in mine]",
        "if False]",
        ("tests/engine/test_queue.py::test_a_taken_key_gives_the_job_that_has_it", f"{EXPLORE}test_settle_rescue"),
    ),
    # -- who is gone ----------------------------------------------------------------------------------------------------
    Mutant(
        "never-stops-itself",
        "a worker that cannot renew its lease works on while others take over",
        "heartbeat.py",
        "return time.monotonic() - self._renewed_at > FENCE_AT * self._seconds",
        "return False",
        ("tests/engine/test_lease.py",),
    ),
    Mutant(
        "lease-is-not-watched",
        "the worker does not look at its lease",
        "worker.py",
        "if lease.must_stop and not self._gone.is_set():",
        "if False:",
        ("tests/scenarios/test_database_away.py::test_workers_come_back_after_a_long_absence",),
    ),
    Mutant(
        "one-look-suffices",
        "a connection that was lost for a moment makes a worker dead",
        "maintenance.sql",
        "worker.unlocked_at <= penstock.now() - interval '0.5 s'",
        "worker.unlocked_at is not null",
        (f"{FLEET}test_a_missing_lock_is_believed_at_the_second_look",),
        "declare_gone",
    ),
    Mutant(
        "heartbeat-in-between-ignored",
        "a worker that lives and has lost its control connection is robbed",
        "maintenance.sql",
        "and worker.unlocked_at_heartbeat = worker.heartbeat_at",
        "",
        (f"{FLEET}test_a_beat_between_the_two_looks_counts_at_the_second",),
        "declare_gone",
    ),
    Mutant(
        "restart-ignored",
        "a restart of the server, which frees all locks, makes all workers dead",
        "maintenance.sql",
        "and worker.unlocked_at_server = pg_postmaster_start_time()",
        "",
        (f"{FLEET}test_a_restart_between_the_two_looks_counts_at_the_second",),
        "declare_gone",
    ),
    Mutant(
        "declares-through-locks",
        "a declaration waits for a claim, and claims wait for it",
        "maintenance.sql",
        "for update skip locked  -- against",
        "for update  -- against",
        (f"{EXPLORE}test_beat_declare_claim",),
        "declare_gone",
    ),
    Mutant(
        "claim-without-looking-at-oneself",
        "a worker claims while it is being declared gone",
        "claim.sql",
        "and gone_at is null for key share",
        "and gone_at is null",
        (f"{EXPLORE}test_beat_declare_claim",),
        "claim_jobs",
    ),
    Mutant(
        "no-quarantined",
        "a poison job takes its next worker with it, and everybody beside it",
        "maintenance.sql",
        "quarantined = not (quarantined and deaths + 1 >= :deaths_allowed)",
        "quarantined = false",
        (f"{FLEET}test_jobs_of_a_lost_worker_are_quarantined_and_not_charged",),
        "rescue_jobs",
    ),
    Mutant(
        "deaths-charged-to-everybody",
        "two crashes bury the innocent",
        "maintenance.sql",
        "deaths = case when quarantined then deaths + 1 else deaths end",
        "deaths = deaths + 1",
        (f"{FLEET}test_jobs_of_a_lost_worker_are_quarantined_and_not_charged",),
        "rescue_jobs",
    ),
    # -- nothing is stuck -----------------------------------------------------------------------------------------------
    Mutant(
        "promotes-too-late",
        "what is due stays later",
        "maintenance.sql",
        "run_at <= penstock.now()",
        "run_at <= penstock.now() - interval '1 hour'",
        ("tests/engine/test_queue.py::test_a_job_for_later_is_not_claimed_before_its_time",),
        "promote_jobs",
    ),
    Mutant(
        "unknown-claims-are-kept",
        "a job whose claim got no answer belongs for ever to a worker that does not know it",
        "worker.py",
        "if unknown := owned - known:",
        "if unknown := set[tuple[int, int]]():",
        ("tests/scenarios/test_commit_cut.py::test_a_claim_without_an_answer_is_given_back",),
    ),
    Mutant(
        "bad-row-takes-its-batch-along",
        "one result that cannot be kept loses the outcomes beside it",
        "settle.py",
        "                    for item in batch:\n                        await self._flush_until_settled([item], {})\n",
        "",
        ("tests/engine/test_settler.py::test_one_bad_row_holds_nobody_back",),
    ),
    Mutant(
        "cancel-does-not-ask",
        "a running job is not told that somebody wants it to end",
        "queue.sql",
        "set cancelling = true",
        "set cancelling = cancelling",
        ("tests/engine/test_worker.py::test_a_running_job_is_cancelled_by_the_beat", f"{EXPLORE}test_settle_cancel"),
        "cancel_running",
    ),
    Mutant(
        "cancel-without-lock",
        "the wish is lost while the job goes from running to later",
        "children.py",
        'await sql.lock_jobs(tx, ids=[row["id"] for row in tree])',
        "pass",
        (f"{EXPLORE}test_settle_cancel",),
    ),
    Mutant(
        "frozen-keeps-its-locks",
        "a process that is frozen in a transaction keeps its job from being rescued",
        "maintenance.py",
        "await sql.end_sessions.run(session, gone_id=gone_id)",
        "pass",
        (f"{FLEET}test_a_frozen_worker_in_a_transaction_loses_its_session",),
    ),
    Mutant(
        "drivers-own-word-for-lost",
        "a connection that is lost before the COMMIT is charged to the job",
        "../database/pool.py",
        "if not session.is_closed():\n                    raise\n",
        "raise\n",
        ("tests/database/test_pool.py::test_a_connection_that_is_lost_before_the_commit_is_the_same_exception",),
    ),
    # -- families -------------------------------------------------------------------------------------------------------
    Mutant(
        "no-count-down",
        "a parent waits for children that have ended",
        "settle.py",
        "    await count_down(tx, children)  # once and last",
        "    # once and last",
        (f"{FANOUT}test_the_last_child_makes_it_ready_and_results_come_in_order",),
    ),
    Mutant(
        "no-count-down-of-a-finish",
        "a parent waits for a child that has finished by itself",
        "settle.py",
        'nothing was written.")\n    await count_down(tx, children)',
        'nothing was written.")',
        (f"{FANOUT}test_a_childs_own_end_counts_too",),
    ),
    Mutant(
        "parent-woken-by-every-child",
        "a parent goes on with half of its results",
        "children.py",
        'if over := [row["id"] for row in rows if not row["unfinished"]]:',
        'if over := [row["id"] for row in rows]:',
        (f"{FANOUT}test_the_last_child_makes_it_ready_and_results_come_in_order",),
    ),
    Mutant(
        "count-down-in-any-order",
        "two settlers with children of the same parents wait in a circle",
        "children.sql",
        "order by fanout.id for update of fanout",
        "for update of fanout",
        (f"{EXPLORE}test_holder_settle_settle",),
        "count_down",
    ),
    Mutant(
        "cancel-leaves-the-tree",
        "children work on for a parent that was cancelled",
        "children.sql",
        "join penstock.fanouts as fanout on fanout.parent = tree.id",
        "join penstock.fanouts as fanout on fanout.parent = tree.id and false",
        (f"{FANOUT}test_a_cancel_goes_down_the_tree",),
        "tree_of",
    ),
    # -- limits ---------------------------------------------------------------------------------------------------------
    Mutant(
        "permits-without-lock",
        "two workers take the last permit",
        "limits/exchange.sql",
        "order by name\nfor update",
        "order by name",
        (f"{EXPLORE}test_permits_permits",),
        "lock_limits",
    ),
    Mutant(
        "permits-of-the-dead",
        "the permits of a lost worker are never free again",
        "limits/exchange.sql",
        "and worker_id in (select id from penstock.workers where gone_at is null)",
        "",
        ("tests/engine/test_permits.py::test_permits_of_a_lost_worker_are_free",),
        "told_allotments",
    ),
    Mutant(
        "outage-charged",
        "an outage of the other side uses up the tries of whoever meets it",
        "running.py",
        "isinstance(error, Unavailable) and context.excused and context.job.attempt <= FREE_TRIES",
        "False",
        ("tests/pipelines/test_llm.py::test_a_lone_question_outlasts_an_outage",),
    ),
    Mutant(
        "outage-for-ever",
        "a request that alone fails is never given up",
        "limits/limiter.py",
        "return before == self._answered",
        "return True",
        (
            "tests/engine/test_permits.py::test_a_failure_is_excused_until_others_are_answered",
            "tests/pipelines/test_llm.py::test_a_question_that_fails_while_others_are_answered_is_given_up",
        ),
    ),
    Mutant(
        "budget-without-lock",
        "two workers that start at once both take the last connections",
        "connection_budget.sql",
        "select pg_try_advisory_xact_lock(hashtext('penstock'), hashtext('budget'))",
        "select true",
        ("tests/engine/test_budget.py::test_two_at_the_same_time_do_not_both_take_the_last_room",),
        "try_budget_lock",
    ),
)
