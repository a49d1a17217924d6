-- name: database_now
select penstock.now()

-- name: declare_schedules
-- One row for each name and fairness key, however often it is declared. What is the same is not even locked. A changed rule or zone
-- starts again; a changed call keeps its next tick, which may be due. A retired one comes back with the ticks that it missed.
with wanted as (
  select * from unnest(
    :names::text[], :fairness_keys::text[], :rules::text[], :timezones::text[], :queues::text[], :kinds::text[], :args::json[],
    :misseds::text[], :overlaps::text[], :nexts::timestamptz[]
  ) as wanted(name, fairness_key, rule, timezone, queue, kind, args, missed, overlap, next_at)
),
news as (
  select wanted.*
  from wanted left join penstock.schedules as known using (name, fairness_key)
  where known.name is null or known.retired_at is not null
    or known.declared_at < penstock.now() - :fresh_for::interval
    or (known.rule, known.timezone, known.queue, known.kind, known.args::text, known.missed, known.overlap, known.origin)
      <> (wanted.rule, wanted.timezone, wanted.queue, wanted.kind, wanted.args::text, wanted.missed, wanted.overlap,
        :origin::text)
)
insert into penstock.schedules as known
  (name, fairness_key, rule, timezone, queue, kind, args, missed, overlap, origin, next_at)
select name, fairness_key, rule, timezone, queue, kind, args, missed, overlap, :origin::text, next_at
from news order by name, fairness_key
on conflict (name, fairness_key) do update
set rule = excluded.rule, timezone = excluded.timezone, queue = excluded.queue, kind = excluded.kind, args = excluded.args,
  missed = excluded.missed, overlap = excluded.overlap, origin = excluded.origin,
  declared_at = penstock.now(), retired_at = null,
  next_at = case when (known.rule, known.timezone) = (excluded.rule, excluded.timezone) then known.next_at
    else excluded.next_at end
where excluded.origin = 'code' or known.origin = 'api' or known.retired_at is not null
returning name, fairness_key

-- name: list_schedules
select name, fairness_key, rule, timezone, queue, kind, args, missed, overlap, origin, declared_at, next_at, last_at, last_job,
  fired, skipped, paused_at, retired_at,
  case
    when retired_at is not null then 'retired'
    when paused_at is not null then 'paused'
    when next_at < penstock.now() - :overdue_after::interval then 'overdue'
    else 'active'
  end as state,
  penstock.now() as now
from penstock.schedules
where (:name::text is null or name = :name) and (:fairness_key::text is null or fairness_key = :fairness_key)
order by name, fairness_key limit :most

-- name: schedule_names
select distinct name from penstock.schedules order by name limit 10000

-- name: count_schedules
select
  case
    when retired_at is not null then 'retired'
    when paused_at is not null then 'paused'
    when next_at < penstock.now() - :overdue_after::interval then 'overdue'
    else 'active'
  end as state,
  count(*) as count
from penstock.schedules group by 1

-- name: overdue_schedules
select name, fairness_key, kind, next_at, penstock.now() - next_at as late
from penstock.schedules
where paused_at is null and retired_at is null and next_at < penstock.now() - :overdue_after::interval
order by next_at limit :most

-- name: run_schedule
-- (new) -> ready: a job outside of the rule, without a key; it counts for no tick.
with made as (
  insert into penstock.jobs (lane, args)
  select lane.id, schedule.args
  from penstock.schedules as schedule
  join penstock.lanes as lane
    on lane.queue = schedule.queue and lane.kind = schedule.kind and lane.fairness_key = schedule.fairness_key
  where schedule.name = :name and schedule.fairness_key = :fairness_key
  returning id
)
select made.id, pg_notify('penstock_queue_' || schedule.queue, '') as told
from made cross join penstock.schedules as schedule
where schedule.name = :name and schedule.fairness_key = :fairness_key

-- name: pause_schedule
-- active -> paused
update penstock.schedules set paused_at = penstock.now()
where name = :name and fairness_key = :fairness_key and paused_at is null
returning name

-- name: resume_schedule
-- paused -> active, from the next tick on: those of the pause were not missed but unwanted.
update penstock.schedules set paused_at = null, next_at = :next_at
where name = :name and fairness_key = :fairness_key and paused_at is not null
returning name

-- name: remove_schedule
-- Only what no worker would declare again in a moment.
delete from penstock.schedules
where name = :name and fairness_key = :fairness_key and (origin = 'api' or retired_at is not null)
returning name
