-- name: explain_job
-- Everything that `why` needs, from the same predicates that the claim obeys.
with
  job as (
    select job.*, lane.queue, lane.kind, lane.share
    from penstock.jobs as job join penstock.lanes as lane on lane.id = job.lane
    where job.id = :id
  ),
  -- include: gates.sql admission
  ,
  gates as (
    select admission.* from admission join job on job.lane = admission.lane
  )
select
  job.id, job.queue, job.kind, job.share, job.state::text as state, job.priority, job.attempt, job.failures, job.suspect,
  job.cancelling, job.claimed_at, job.run_at, job.enqueued_at, job.progress, job.error, job.deaths,
  penstock.now() as now,
  owner.name as owner, owner.beat_at as owner_beat_at, owner.gone_at as owner_gone_at,
  (select count(*) from penstock.workers where gone_at is null) as workers,
  (select count(*) from gates where verdict = 'open') as open_workers,
  (select count(*) from gates where verdict = 'draining') as draining_workers,
  (select row_to_json(paused) from (
    select paused_what as what, paused_name as name, paused_reason as reason, paused_since as since
    from gates where verdict = 'paused' limit 1
  ) as paused) as pause,
  (select max(gone_at) from penstock.workers where job.kind = any (kinds) and job.queue = any (queues)) as last_server_left_at,
  -- Bounded: "more than a thousand" is as good an answer as the exact number.
  (select count(*) from (
    select from penstock.jobs as before
    where before.state = 'ready' and not before.suspect and before.priority = job.priority and before.lane = job.lane
      and before.id < job.id
    limit 1000
  ) as before) as ahead_in_lane
from job left join penstock.workers as owner on owner.id = job.worker_id
