-- name: tries
-- The ended attempts of all jobs that a document ever had: its versions name theirs, and retries tell of theirs in its story.
with job as (
  select job_id as id from penstock.versions where document_id = :document and job_id is not null
  union
  select job_id from penstock.documents where id = :document and job_id is not null
  union
  select number::bigint from penstock.events as event
  cross join lateral (values (event.details ->> 'job'), (event.details ->> 'before')) as told(number)
  where event.document_id = :document and event.event in ('retried', 'prepared') and number is not null
),
tried as (
  select job.id, live.attempts from job join penstock.jobs as live on live.id = job.id
  union all
  select job.id, past.attempts from job join penstock.job_history as past on past.id = job.id
)
select tried.id as job, attempt.number, attempt.started_at, attempt.seconds, attempt.outcome, attempt.error,
  coalesce(worker.name, attempt.worker_id::text) as worker
from tried cross join lateral unnest(tried.attempts) as attempt(number, worker_id, started_at, seconds, outcome, error)
left join penstock.workers as worker on worker.id = attempt.worker_id
order by attempt.started_at, tried.id, attempt.number limit :most
