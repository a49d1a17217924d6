-- name: insert_jobs
-- (new) -> ready, or later when it has a date. Ids come in the order of the calls. Workers are notified in the same statement,
-- so that one enqueue is one round trip.
with new as (
  insert into penstock.jobs (lane, priority, args, state, run_at)
  select lane, priority, args,
    case when delay is null then 'ready' else 'later' end::penstock.job_state,
    penstock.now() + delay
  from unnest(:lanes::int[], :priorities::smallint[], :args::json[], :delays::interval[]) with ordinality
    as call(lane, priority, args, delay, turn)
  order by turn
  returning id
),
told as (
  select count(pg_notify('penstock_queue_' || queue, '')) from unnest(:queues::text[]) as queue
)
select new.id from new cross join told order by new.id

-- name: reserve_ids
select nextval(pg_get_serial_sequence('penstock.jobs', 'id')) from generate_series(1, :count::int)

-- name: take_keys
-- Sorted, so that two callers with the same keys do not wait for each other in a circle. A key that has expired is taken
-- over. What comes back is ours; for the rest another transaction was first.
insert into penstock.job_keys (key, job_id)
select key, id from unnest(:keys::text[], :ids::bigint[]) as wanted(key, id) order by key
on conflict (key) do update set job_id = excluded.job_id, until = null
  where job_keys.until <= penstock.now()
returning key

-- name: holders_of
select key, job_id from penstock.job_keys where key = any (:keys::text[]) and (until is null or until > penstock.now())

-- name: insert_keyed_jobs
insert into penstock.jobs (id, lane, priority, args, state, run_at, unique_key, unique_for)
select id, lane, priority, args,
  case when delay is null then 'ready' else 'later' end::penstock.job_state,
  penstock.now() + delay, key, keep
from unnest(:ids::bigint[], :lanes::int[], :priorities::smallint[], :args::json[], :delays::interval[], :keys::text[],
  :keeps::interval[]) as new(id, lane, priority, args, delay, key, keep)

-- name: find_job
-- Alive or in the history, in one statement: between two it could have moved.
select job.id, lane.queue, lane.kind, lane.fairness_key, job.state::text as state, job.priority, job.attempt, job.failures,
  job.quarantined, job.deaths, job.cancelling, job.worker_id, job.claimed_at, job.run_at, job.enqueued_at,
  null::timestamptz as finished_at, job.unique_key, job.args, null::json as result, job.progress, job.error,
  to_json(job.attempts) as attempts
from penstock.jobs as job join penstock.lanes as lane on lane.id = job.lane
where job.id = :id
union all
select past.id, lane.queue, lane.kind, lane.fairness_key, past.outcome, past.priority, past.attempt, past.failures,
  false, 0, false, past.worker_id, null, null, past.enqueued_at,
  past.finished_at, null, past.args, past.result, null, past.error,
  to_json(past.attempts)
from penstock.job_history as past join penstock.lanes as lane on lane.id = past.lane
where past.id = :id

-- name: await_job
-- A caller waits: the settler of the job will notify. Already over: the row shows the outcome.
update penstock.jobs set awaited = true where id = :id and not awaited

-- name: cancel_idle
-- ready, later, waiting or dead -> cancelled (history). A running job is only marked: see cancel_running.
with ended as (
  delete from penstock.jobs
  where id = any (:ids::bigint[]) and state <> 'running'
  returning *
),
freed as (
  delete from penstock.job_keys using ended where job_keys.key = ended.unique_key and job_keys.job_id = ended.id
),
moved as (
  insert into penstock.job_history
    (id, lane, outcome, priority, attempt, failures, enqueued_at, finished_at, args, error, attempts,
    fanout, turn)
  select id, lane, :outcome::text, priority, attempt, failures, enqueued_at, penstock.now(), args,
    coalesce(error, json_build_object('class', 'Cancelled', 'message', :reason::text)), attempts, fanout, turn
  from ended
)
select id, state::text as state, case when awaited then pg_notify('penstock_done', '') is null end as told from ended

-- name: cancel_running
-- Brought to its worker by the next heartbeat.
update penstock.jobs set cancelling = true
where id = any (:ids::bigint[]) and state = 'running'
returning id

-- name: is_known
-- Whether a queue, kind or fairness key has had a job or a schedule, or a worker of the last 7 days has declared it.
select exists (
  select
  -- include: queue.sql known
  where known.what = :what and known.name = :name
)

-- name: known_names
-- The queues, kinds or fairness keys that there are; fairness keys can be many.
select distinct known.name
-- include: queue.sql known
where known.what = :what order by known.name limit 10000

-- name: known
-- A fragment: the names of all lanes, schedules and workers.
from (
  select named.what, named.name
  from penstock.lanes as lane
  cross join lateral (values ('queue', lane.queue), ('kind', lane.kind), ('fairness_key', lane.fairness_key)) as named(what, name)
  union all
  select named.what, named.name
  from penstock.schedules as schedule
  cross join lateral (
    values ('queue', schedule.queue), ('kind', schedule.kind), ('fairness_key', schedule.fairness_key)
  ) as named(what, name)
  union all
  select 'queue', unnest(queues) from penstock.workers
  union all
  select 'kind', unnest(kinds) from penstock.workers
) as known(what, name)

-- name: pause
insert into penstock.pauses (what, name, reason) values (:what, :name, :reason)
on conflict (what, name) do update set reason = excluded.reason

-- name: resume
delete from penstock.pauses where what = :what and name = :name returning since

-- name: queues_of
select distinct queue from penstock.lanes
where (:what = 'queue' and queue = :name) or (:what = 'kind' and kind = :name) or (:what = 'fairness_key' and fairness_key = :name)

-- name: pauses
select what, name, reason, since from penstock.pauses order by since

-- name: weigh
insert into penstock.fairness_weights (name, weight) values (:name, :weight)
on conflict (name) do update set weight = excluded.weight
