-- name: register_worker
insert into penstock.workers (name, host, pid, version, queues, kinds, slots, lease, connections)
values (:name, :host, :pid, :version, :queues, :kinds, :slots, :lease, :connections)
returning id

-- name: hold_lock
-- Held by the heartbeat's session for as long as it lives. The kernel closes the session of a killed process, and PostgreSQL
-- frees the lock 3 to 5 ms later: that is how others see a death at once.
select pg_try_advisory_lock(hashtext('penstock worker'), :worker_id::int)

-- name: heartbeat
-- A worker that was declared gone gets no row, and must stop. The answer brings the commands.
with me as (
  update penstock.workers
  set heartbeat_at = penstock.now(), draining = :draining, load = :load::jsonb
  where id = :worker_id and gone_at is null
  returning id
)
select
  array(
    select row_to_json(job)::text
    from (select id, attempt from penstock.jobs where cancelling and worker_id = me.id limit 1000) as job
  ) as cancelling,
  exists (select from penstock.jobs where state = 'ready' and quarantined) as quarantined
from me

-- name: leave
-- The end of a worker that has requeued everything.
update penstock.workers set gone_at = penstock.now(), gone_why = 'left', heartbeat_at = penstock.now()
where id = :worker_id and gone_at is null
  and not exists (select from penstock.jobs where state = 'running' and worker_id = :worker_id)
returning id

-- name: workers
select id, name, host, pid, version, queues, kinds, slots, started_at, heartbeat_at, draining, load, gone_at, gone_why,
  penstock.now() - heartbeat_at as silent_for, lease,
  (select count(*) from penstock.jobs where state = 'running' and worker_id = worker.id) as running
from penstock.workers as worker
where gone_at is null or gone_at > penstock.now() - :gone_within::interval
order by gone_at nulls first, id

-- name: acknowledge_lost
-- Acknowledged losses: doctor does not report them again.
update penstock.workers set load = load || '{"known": true}'
where gone_at is not null and gone_why <> 'left' and not load ? 'known'
returning id

-- name: membership
-- One worker, as the fleet sees it.
select gone_at, gone_why, lease, penstock.now() - heartbeat_at as silent_for from penstock.workers where id = :worker_id

-- name: is_served
-- Whether a live worker would take jobs of a kind.
select exists (
  select from penstock.workers where
  -- include: fleet.sql serving
)

-- name: count_serving
-- The workers that would take jobs of a kind.
select count(*) from penstock.workers where
-- include: fleet.sql serving

-- name: serving
-- A fragment: the condition for a row of workers to be a live worker that takes jobs of a kind.
gone_at is null and not draining and heartbeat_at + lease >= penstock.now() and :kind::text = any (kinds)
