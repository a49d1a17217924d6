-- name: dead_by_cause
-- `unwanted`: all of them are children of jobs that are over, and would be refused by a redrive.
select fingerprint, count(*) as count,
  bool_and(job.fanout is not null and not exists (
    select from penstock.fanouts as fanout join penstock.jobs as parent on parent.id = fanout.parent
    where fanout.id = job.fanout
  )) as unwanted, min(lane.kind) as kind, max(job.error ->> 'class') as class,
  max(job.error ->> 'message') as message, max(job.error ->> 'code') as code, min(job.id) as first_id, max(job.id) as last_id
from penstock.jobs as job join penstock.lanes as lane on lane.id = job.lane
where job.state = 'dead'
  and not (lane.kind = any (:kinds::text[]) and coalesce(job.error ->> 'type', '') = any (:without::text[]))
group by fingerprint order by count(*) desc limit :most

-- name: redrives_of
-- The jobs that redrive them just now, by their keys, and how far they are.
select held.key, job.id, job.progress
from penstock.job_keys as held join penstock.jobs as job on job.id = held.job_id
where held.key = any (:keys::text[]) and held.until is null

-- name: dead_jobs
select job.id, lane.kind, lane.fairness_key, job.fingerprint, job.error, job.attempt, job.failures, job.enqueued_at
from penstock.jobs as job join penstock.lanes as lane on lane.id = job.lane
where job.state = 'dead'
  and (:fingerprint::text is null or job.fingerprint = :fingerprint)
  and (:kind::text is null or lane.kind = :kind)
  and (cardinality(:ids::bigint[]) = 0 or job.id = any (:ids::bigint[]))
order by job.id limit :most

-- name: redrive_jobs
-- dead -> ready, with a fresh budget. The attempt number goes on: it never shrinks. One whose worker died with it stays
-- quarantined: if that happens again, no other job is affected.
update penstock.jobs
set state = 'ready', failures = 0, deaths = 0, quarantined = (error ->> 'class' = 'Poison'), cancelling = false, fingerprint = null, error = null
where id = any (:ids::bigint[]) and state = 'dead'
returning id, lane, fanout

-- name: untried_of
-- Those that are dead as they were when the redrive was planned: a larger attempt was retried meanwhile.
select job.id from unnest(:ids::bigint[], :attempts::int[]) as planned(id, attempt)
join penstock.jobs as job on job.id = planned.id and job.attempt = planned.attempt and job.state = 'dead'

-- name: ended_of
-- How redriven jobs ended: in the history, dead again (with which fingerprint), or not yet.
select wanted.id,
  coalesce(past.outcome, live.state::text) as state, live.fingerprint
from unnest(:ids::bigint[]) as wanted(id)
left join penstock.jobs as live on live.id = wanted.id
left join lateral (select outcome from penstock.job_history where id = wanted.id limit 1) as past on true

-- name: dead_ids
-- The jobs that a redrive or a discard processes. Not the errors: there may be many, with long tracebacks.
select job.id, job.fingerprint, job.attempt
from penstock.jobs as job join penstock.lanes as lane on lane.id = job.lane
where job.state = 'dead'
  and (:fingerprint::text is null or job.fingerprint = :fingerprint)
  and (:kind::text is null or lane.kind = :kind)
  and (cardinality(:ids::bigint[]) = 0 or job.id = any (:ids::bigint[]))
order by job.id limit :most

-- name: codes_of_dead
-- Which code they failed in, and which code would run them now: none where no live worker serves the kind.
select lane.kind, job.error ->> 'code' as failed_in,
  array(
    select distinct worker.load ->> 'code' from penstock.workers as worker
    where worker.gone_at is null and lane.kind = any (worker.kinds) and lane.queue = any (worker.queues)
      and worker.load ->> 'code' is not null
  ) as served_by
from penstock.jobs as job join penstock.lanes as lane on lane.id = job.lane
where job.id = any (:ids::bigint[]) and job.state = 'dead'

-- name: discard_dead
-- dead -> discarded (history), with the reason next to the failure.
with ended as (
  delete from penstock.jobs where id = any (:ids::bigint[]) and state = 'dead' returning *
),
freed as (
  delete from penstock.job_keys using ended where job_keys.key = ended.unique_key and job_keys.job_id = ended.id
),
moved as (
  insert into penstock.job_history
    (id, lane, outcome, priority, attempt, failures, enqueued_at, finished_at, args, error, attempts,
    fanout, turn)
  select id, lane, 'discarded', priority, attempt, failures, enqueued_at, penstock.now(), args,
    (error::jsonb || jsonb_build_object('discarded', :reason::text))::json, attempts, fanout, turn
  from ended
)
select id, case when awaited then pg_notify('penstock_done', '') is null end as told from ended
