-- Permits are allotted under a lock on the limit's row: its holder sees what the others have, and takes only what is left.

-- name: declare_limits
-- The permits of the worker that joined last count from then on, unless a person has chosen some. Sorted, so that two of them do
-- not wait in a circle. (A schema without the column `chosen` may be met, too.)
insert into penstock.limits (name, permits)
select name, permits from unnest(:names::text[], :permits::int[]) as declared(name, permits) order by name
on conflict (name) do update set permits = excluded.permits
where limits.permits <> excluded.permits and to_jsonb(limits) ->> 'chosen' is null

-- name: forget_uses
-- What these kinds needed in an earlier release.
delete from penstock.uses
where kind = any (:served::text[])
  and (kind, limit_name) not in (select * from unnest(:kinds::text[], :names::text[]))

-- name: declare_uses
insert into penstock.uses (kind, limit_name, amount)
select * from unnest(:kinds::text[], :names::text[], :amounts::int[]) as declared(kind, limit_name, amount) order by 1, 2
on conflict (kind, limit_name) do update set amount = excluded.amount where uses.amount <> excluded.amount

-- name: bound_waiting
-- Of this transaction: a worker that is frozen while it has the lock must not stop the heartbeats of all others.
set local lock_timeout = '100ms'

-- name: lock_limits
select name, permits, opened_at is not null as opened, coalesce(reason, '') as reason, trips, probe_by,
  coalesce(extract(epoch from rests_till - penstock.now()), 0)::float8 as rests_for,
  coalesce(probe_till > penstock.now(), false) as probed,
  extract(epoch from penstock.now())::float8 as now
from penstock.limits
where name = any (:names::text[])
order by name
for update

-- name: told_allotments
-- What the others have and want. A statement of its own: it must see what was committed while we waited for the lock. The
-- permits of a worker that is gone are free.
select limit_name, worker_id, granted, used, waiting, need
from penstock.allotments
where limit_name = any (:names::text[]) and worker_id <> :worker_id
  and worker_id in (select id from penstock.workers where gone_at is null)

-- name: write_allotments
insert into penstock.allotments (limit_name, worker_id, granted, used, waiting, concurrency, need)
select name, :worker_id::bigint, granted, used, waiting, concurrency, need
from unnest(:names::text[], :granted::int[], :used::int[], :waiting::int[], :concurrencies::real[], :needs::int[])
  as told(name, granted, used, waiting, concurrency, need)
on conflict (limit_name, worker_id) do update
set granted = excluded.granted, used = excluded.used, waiting = excluded.waiting, concurrency = excluded.concurrency,
  need = excluded.need, told_at = penstock.now()

-- name: open_breaker
-- closed -> open, or half open -> open: the rest is longer with each opening that no success came between.
update penstock.limits
set opened_at = coalesce(opened_at, penstock.now()), rests_till = penstock.now() + :rest, reason = :reason,
  trips = trips + 1, failures = :failures, probe_by = null, probe_till = null
where name = :name

-- name: take_probe
-- open -> half open, for this worker alone; again while its call is under way.
update penstock.limits set probe_by = :worker_id, probe_till = penstock.now() + :patience where name = :name

-- name: close_breaker
-- open or half open -> closed: workers that wait for it are woken. No row: it was not open.
with closed as (
  update penstock.limits
  set opened_at = null, rests_till = null, reason = null, probe_by = null, probe_till = null, trips = 0, failures = 0
  where name = :name and opened_at is not null
  returning name
)
select closed.name, (
  select count(pg_notify('penstock_queue_' || concerned.queue, ''))
  from (
    select distinct lane.queue
    from penstock.uses as use join penstock.lanes as lane on lane.kind = use.kind
    where use.limit_name = closed.name
  ) as concerned
) as woken
from closed

-- name: sweep_allotments
delete from penstock.allotments where worker_id not in (select id from penstock.workers where gone_at is null)
