-- Each statement shows the whole fence: the job, the attempt, and the worker that has it. None of them names the state:
-- only a running job has a worker, and a condition on the state could lead the planner to a partial index instead of the
-- primary key. The worker comes with each row for the same reason: as a condition on the table alone it looked so rare,
-- after an ANALYZE that saw nothing running, that the planner scanned for it (0.5 s for a flush of 1,000 instead of 10 ms).

-- name: settle_done
-- running -> done or cancelled: the row moves to the history, and callers that wait for it are notified.
with mine as (
  delete from penstock.jobs
  using unnest(:ids::bigint[], :attempts::int[], :workers::bigint[], :seconds::real[], :results::json[])
    as proof(id, attempt, worker_id, seconds, result)
  where jobs.id = proof.id
    and jobs.attempt = proof.attempt and jobs.worker_id = proof.worker_id
  returning jobs.id, jobs.lane, jobs.priority, jobs.attempt, jobs.failures, jobs.enqueued_at, jobs.worker_id, jobs.args,
    jobs.error, jobs.attempts, jobs.claimed_at, jobs.awaited, jobs.fanout, jobs.turn, proof.seconds, proof.result
),
moved as (
  insert into penstock.job_history
    (id, lane, outcome, priority, attempt, failures, enqueued_at, finished_at, worker_id, args, result, error, attempts,
    fanout, turn)
  select
    id, lane, :outcome::text, priority, attempt, failures, enqueued_at, penstock.now(), worker_id, args, result, error,
    attempts || row(attempt, worker_id, claimed_at, seconds, :outcome::text, null)::penstock.attempt, fanout, turn
  from mine
)
select id, fanout, case when awaited then pg_notify('penstock_done', '') is null end as told from mine

-- name: settle_retry
-- running -> later. A failure is charged, patience is not.
update penstock.jobs
set state = 'later', worker_id = null, claimed_at = null, run_at = penstock.now() + proof.after,
  failures = failures + proof.charge, quarantined = proof.alone, deaths = 0, progress = null,
  error = proof.error, fingerprint = proof.fingerprint,
  attempts = attempts
    || row(jobs.attempt, jobs.worker_id, jobs.claimed_at, proof.seconds, proof.outcome, proof.message)::penstock.attempt
from unnest(
  :ids::bigint[], :attempts::int[], :workers::bigint[], :seconds::real[], :afters::interval[], :charges::smallint[], :alones::boolean[],
  :errors::json[], :fingerprints::text[], :messages::text[], :outcomes::text[]
) as proof(id, attempt, worker_id, seconds, after, charge, alone, error, fingerprint, message, outcome)
where jobs.id = proof.id
  and jobs.attempt = proof.attempt and jobs.worker_id = proof.worker_id
returning jobs.id

-- name: settle_dead
-- running -> dead
with buried as (
  update penstock.jobs
  set state = 'dead', worker_id = null, claimed_at = null, failures = failures + 1, quarantined = false, deaths = 0,
    error = proof.error, fingerprint = proof.fingerprint,
    attempts = attempts
      || row(jobs.attempt, jobs.worker_id, jobs.claimed_at, proof.seconds, 'dead', proof.message)::penstock.attempt
  from unnest(
    :ids::bigint[], :attempts::int[], :workers::bigint[], :seconds::real[], :errors::json[], :fingerprints::text[], :messages::text[]
  ) as proof(id, attempt, worker_id, seconds, error, fingerprint, message)
  where jobs.id = proof.id
    and jobs.attempt = proof.attempt and jobs.worker_id = proof.worker_id
  returning jobs.id, jobs.awaited, jobs.fanout
)
select id, fanout, case when awaited then pg_notify('penstock_done', '') is null end as told from buried

-- name: settle_requeue
-- running -> ready: the try is not charged, the attempt number is not reused.
update penstock.jobs
set state = 'ready', worker_id = null, claimed_at = null, progress = null,
  attempts = attempts
    || row(jobs.attempt, jobs.worker_id, jobs.claimed_at, proof.seconds, 'requeued', proof.reason)::penstock.attempt
from unnest(:ids::bigint[], :attempts::int[], :workers::bigint[], :seconds::real[], :reasons::text[])
  as proof(id, attempt, worker_id, seconds, reason)
where jobs.id = proof.id
  and jobs.attempt = proof.attempt and jobs.worker_id = proof.worker_id
returning jobs.id

-- name: settle_progress
-- running stays running; a stale attempt writes nothing.
update penstock.jobs
set progress = proof.progress
from unnest(:ids::bigint[], :attempts::int[], :workers::bigint[], :progresses::json[])
  as proof(id, attempt, worker_id, progress)
where jobs.id = proof.id
  and jobs.attempt = proof.attempt and jobs.worker_id = proof.worker_id
returning jobs.id

-- name: settled_before
-- The answer to an earlier COMMIT may have been lost: an attempt that ended is in the row's or the history's attempts.
select proof.id
from unnest(:ids::bigint[], :attempts::int[]) as proof(id, attempt)
where exists (
  select from penstock.job_history as past
  where past.id = proof.id and exists (
    select from unnest(past.attempts) as ended
    where ended.number = proof.attempt and ended.worker_id = :worker_id and ended.outcome <> 'lost'
  )
) or exists (
  select from penstock.jobs as live
  where live.id = proof.id and exists (
    select from unnest(live.attempts) as ended
    where ended.number = proof.attempt and ended.worker_id = :worker_id and ended.outcome <> 'lost'
  )
)

-- name: release_keys
-- A job that is over gives up its key, at once or after the time that it asked for.
with over as (
  select * from unnest(:keys::text[], :ids::bigint[], :keeps::interval[]) as ended(key, id, keep)
),
kept as (
  update penstock.job_keys set until = penstock.now() + over.keep
  from over where job_keys.key = over.key and job_keys.job_id = over.id and over.keep is not null
)
delete from penstock.job_keys
using over where job_keys.key = over.key and job_keys.job_id = over.id and over.keep is null

-- name: hold_fence
-- Before a handler's writes: is this attempt still ours? The row stays locked, so that no rescue can come in between.
select id from penstock.jobs
where id = :id and attempt = :attempt and worker_id = :worker_id
for no key update
