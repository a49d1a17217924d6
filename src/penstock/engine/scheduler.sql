-- A transaction that locks several schedules skips those that are locked, or goes by name and fairness key: no deadlock.

-- name: refresh_schedules
-- Still declared. One that was retired while its worker was cut off comes back.
with mine as (
  select schedule.name, schedule.fairness_key
  from unnest(:names::text[], :fairness_keys::text[]) as declared(name, fairness_key)
  join penstock.schedules as schedule using (name, fairness_key)
  where schedule.origin = 'code'
    and (schedule.declared_at < penstock.now() - :fresh_for::interval or schedule.retired_at is not null)
  for update of schedule skip locked
)
update penstock.schedules as schedule set declared_at = penstock.now(), retired_at = null
from mine where schedule.name = mine.name and schedule.fairness_key = mine.fairness_key
returning schedule.name

-- name: retire_schedules
-- active -> retired: no worker declares it any more.
with orphans as (
  select name, fairness_key from penstock.schedules
  where origin = 'code' and retired_at is null and declared_at < penstock.now() - :retire_after::interval
  for update skip locked
)
update penstock.schedules as schedule set retired_at = penstock.now()
from orphans where schedule.name = orphans.name and schedule.fairness_key = orphans.fairness_key
returning schedule.name, schedule.fairness_key

-- name: delete_retired
delete from penstock.schedules where retired_at < penstock.now() - :kept::interval

-- name: until_next_tick
select extract(epoch from next_at - penstock.now())::float8
from penstock.schedules
where paused_at is null and retired_at is null and next_at is not null
order by next_at limit 1

-- name: due_schedules
-- Ours until the end of the transaction; another worker takes others. `alive`: the job of the last tick is not over.
select schedule.name, schedule.fairness_key, schedule.rule, schedule.timezone, schedule.missed, schedule.overlap, schedule.next_at,
  schedule.queue, schedule.kind, lane.id as lane, penstock.now() as now,
  -- Not `exists`: the planner may answer that one by a hash of all jobs.
  case when schedule.overlap = 'skip' then coalesce((
    select job.state <> 'dead' from penstock.jobs as job where job.id = schedule.last_job
  ), false) else false end as alive
from penstock.schedules as schedule
left join penstock.lanes as lane
  on lane.queue = schedule.queue and lane.kind = schedule.kind and lane.fairness_key = schedule.fairness_key
where schedule.paused_at is null and schedule.retired_at is null and schedule.next_at <= penstock.now()
order by schedule.next_at limit :batch
for update of schedule skip locked

-- name: fire_ticks
-- (new) -> ready: one job for each tick whose key is free. The key stays taken for a while after the job is over, so that
-- even a next_at that is wrong cannot make a second one.
with tick as (
  select * from unnest(:names::text[], :fairness_keys::text[], :lanes::int[], :keys::text[], :keeps::interval[])
    as tick(name, fairness_key, lane, key, keep)
),
taken as (
  insert into penstock.job_keys (key, job_id)
  select key, nextval('penstock.jobs_id_seq') from tick
  on conflict (key) do update set job_id = excluded.job_id, until = null where job_keys.until <= penstock.now()
  returning key, job_id
),
made as (
  insert into penstock.jobs (id, lane, args, unique_key, unique_for)
  select taken.job_id, tick.lane, schedule.args, tick.key, tick.keep
  from taken join tick using (key) join penstock.schedules as schedule using (name, fairness_key)
),
told as (
  select count(pg_notify('penstock_queue_' || queue, '')) from unnest(:queues::text[]) as queue
)
select taken.key, taken.job_id from taken cross join told

-- name: advance_schedules
update penstock.schedules as schedule
set next_at = move.next_at, fired = schedule.fired + move.fired, skipped = schedule.skipped + move.skipped,
  last_at = coalesce(move.last_at, schedule.last_at), last_job = coalesce(move.last_job, schedule.last_job)
from unnest(
  :names::text[], :fairness_keys::text[], :nexts::timestamptz[], :fireds::int[], :skippeds::bigint[], :lasts::timestamptz[],
  :jobs::bigint[]
) as move(name, fairness_key, next_at, fired, skipped, last_at, last_job)
where schedule.name = move.name and schedule.fairness_key = move.fairness_key
