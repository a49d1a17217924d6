-- name: missing_partitions
-- The statements that make the history's partitions of today and the next two days. A table is made and then attached,
-- which locks the history less than making it as a partition would.
select format(
  'create table if not exists penstock.job_history_%1$s (like penstock.job_history including all); '
  'alter table penstock.job_history attach partition penstock.job_history_%1$s for values from (%2$L) to (%3$L)',
  to_char(day, 'YYYYMMDD'), day, day + interval '1 day') as statement
from generate_series(date_trunc('day', penstock.now(), 'UTC'),
  date_trunc('day', penstock.now(), 'UTC') + interval '2 days', interval '1 day') as day
where to_regclass('penstock.job_history_' || to_char(day, 'YYYYMMDD')) is null

-- name: try_partition_lock
select pg_try_advisory_xact_lock(hashtext('penstock'), hashtext('partitions'))

-- name: expired_partition
-- The oldest day that ended longer ago than what is kept, with the statement that drops it. Not while another session has been
-- reading the history for long, a dump for example: all that end a job would queue after our wait for it.
select to_char(day.date, 'YYYY-MM-DD') as day, part.reltuples::bigint as rows,
  format('drop table penstock.%I', part.relname) as statement
from pg_inherits
join pg_class as part on part.oid = pg_inherits.inhrelid
cross join lateral (select to_date(right(part.relname, 8), 'YYYYMMDD') as date) as day
where pg_inherits.inhparent = 'penstock.job_history'::regclass
  and part.relname ~ '^job_history_[0-9]{8}$'
  and (day.date + 1)::timestamp at time zone 'UTC' <= penstock.now() - :kept::interval
  and not exists (
    select from pg_locks join pg_stat_activity as reader on reader.pid = pg_locks.pid
    where pg_locks.relation in (pg_inherits.inhparent, pg_inherits.inhrelid)
      and pg_locks.database = (select oid from pg_database where datname = current_database())
      and reader.xact_start < clock_timestamp() - interval '2 s'
  )
order by day.date limit 1

-- name: sweep_rest
with old as (
  select ctid from penstock.job_history_rest
  where finished_at < penstock.now() - :kept::interval order by finished_at limit :batch for update skip locked
),
swept as (
  delete from penstock.job_history_rest where ctid = any (array(select ctid from old)) returning id
)
select count(*)::int from swept

-- name: sweep_keys
with expired as (
  select key from penstock.job_keys where until <= penstock.now() order by until limit :batch for update skip locked
),
swept as (
  delete from penstock.job_keys where key = any (array(select key from expired)) returning key
)
select count(*)::int from swept

-- name: sweep_workers
delete from penstock.workers where gone_at < penstock.now() - interval '7 days'

-- name: sweep_own_checkpoints
-- One page of the steps that belong to a job alone: those whose job is neither alive nor a dead letter any more. What the
-- end of a job has not taken with it (a cancellation, a discard) is found here.
with page as materialized (
  select job_id from penstock.checkpoints where own and job_id > :after::bigint order by job_id limit :batch
),
over as (
  select distinct job_id from page where not exists (select from penstock.jobs where jobs.id = page.job_id)
),
swept as (
  delete from penstock.checkpoints where own and job_id = any (array(select job_id from over)) returning job_id
)
select (select count(*) from page)::int as looked, (select max(job_id) from page) as last,
  (select count(*) from swept)::int as swept

-- name: sweep_shared_checkpoints
-- The steps of a scope that no job has come back to: each use renews them.
with old as (
  select ctid from penstock.checkpoints
  where not own and made_at < penstock.now() - :kept::interval order by made_at limit :batch for update skip locked
),
swept as (
  delete from penstock.checkpoints where ctid = any (array(select ctid from old)) returning job_id
)
select count(*)::int from swept

-- name: note_missing_locks
-- The first of two checks: workers whose session lock is absent, and the state at that moment. One that is back is cleared.
with held as materialized (
  select objid::bigint as worker_id from pg_locks
  where locktype = 'advisory' and granted and classid = hashtext('penstock worker')::int8::bit(32)::int8::oid
    and database = (select oid from pg_database where datname = current_database())
),
looked as (
  select worker.id, held.worker_id is null as absent
  from penstock.workers as worker left join held on held.worker_id = worker.id
  where worker.gone_at is null and worker.id <> :worker_id
)
update penstock.workers as worker
set unlocked_at = case when looked.absent then penstock.now() end,
  unlocked_at_heartbeat = case when looked.absent then worker.heartbeat_at end,
  unlocked_at_server = case when looked.absent then pg_postmaster_start_time() end
from looked
where worker.id = looked.id and (
  (not looked.absent and worker.unlocked_at is not null)
  or (looked.absent and (worker.unlocked_at_heartbeat, worker.unlocked_at_server)
      is distinct from (worker.heartbeat_at, pg_postmaster_start_time()))
)

-- name: declare_gone
-- The second check, at least half a second later: still no lock, no heartbeat in between, and the same server. All others are
-- left to the lease. Never by taking the lock: that would make a dead worker look alive to the next check.
with held as materialized (
  select objid::bigint as worker_id from pg_locks
  where locktype = 'advisory' and granted and classid = hashtext('penstock worker')::int8::bit(32)::int8::oid
    and database = (select oid from pg_database where datname = current_database())
),
gone as (
  select worker.id, worker.heartbeat_at + worker.lease < penstock.now() as expired
  from penstock.workers as worker
  where worker.gone_at is null and worker.id <> :worker_id and (
    worker.heartbeat_at + worker.lease < penstock.now()
    or (
      worker.unlocked_at <= penstock.now() - interval '0.5 s'
      and worker.unlocked_at_heartbeat = worker.heartbeat_at
      and worker.unlocked_at_server = pg_postmaster_start_time()
      and worker.id not in (select worker_id from held)
    )
  )
  for update skip locked  -- against a claim or a heartbeat that is under way: check again next time
)
update penstock.workers as worker
set gone_at = penstock.now(), gone_why = case when gone.expired then 'its lease ended' else 'its process ended' end
from gone where worker.id = gone.id
returning worker.id, worker.name, worker.gone_why

-- name: gone_with_jobs
-- Workers that are gone and still own something. An index-only scan of what runs.
select distinct worker_id from penstock.jobs
where state = 'running'
  and worker_id in (select id from penstock.workers where gone_at is not null and gone_at > penstock.now() - interval '1 day')

-- name: rescue_jobs
-- running -> ready as a quarantined job, or dead after two deaths as the only quarantined job; what was to be cancelled is cancelled.
-- A death is charged only to a quarantined job: there was at most one of them in the worker.
with lost as (
  select id from penstock.jobs where state = 'running' and worker_id = :gone_id limit :batch for update skip locked
)
update penstock.jobs
set state = case when quarantined and deaths + 1 >= :deaths_allowed then 'dead' else 'ready' end::penstock.job_state,
  quarantined = not (quarantined and deaths + 1 >= :deaths_allowed),
  deaths = case when quarantined then deaths + 1 else deaths end,
  error = case when quarantined and deaths + 1 >= :deaths_allowed then json_build_object(
    'class', 'Poison', 'type', 'WorkerLost', 'traceback', '', 'fingerprint', 'poison-' || lane, 'code', '',
    'message', format('Its worker was lost %s times while it ran as the only quarantined job.', deaths + 1)) else error end,
  fingerprint = case when quarantined and deaths + 1 >= :deaths_allowed then 'poison-' || lane else fingerprint end,
  worker_id = null, claimed_at = null, progress = null,
  attempts = attempts || row(attempt, worker_id, claimed_at, extract(epoch from penstock.now() - claimed_at), 'lost',
    'the worker was lost')::penstock.attempt
where id = any (array(select id from lost))
returning id, lane, state::text as state, cancelling, fanout

-- name: end_sessions
-- A frozen process keeps the locks of its transactions. In the middle of a message, between Parse and Bind, the server waits
-- for the rest without any timeout: neither idle in a transaction nor running a statement. So a worker that is gone loses the sessions
-- whose transactions began before that. The mark is that of session.py.
select pg_terminate_backend(session.pid)
from penstock.workers as worker
join pg_stat_activity as session on session.application_name like 'penstock-%'
  and split_part(session.application_name, ' ', 2) = right(worker.name, 40)
where worker.id = :gone_id and worker.gone_at is not null
  and session.datname = current_database() and session.usename = current_user and session.pid <> pg_backend_pid()
  and session.xact_start < statement_timestamp() - (penstock.now() - worker.gone_at)

-- name: promote_jobs
-- later -> ready, in bounded batches, by every worker.
with due as (
  select id from penstock.jobs where state = 'later' and run_at <= penstock.now() order by run_at limit :batch
  for update skip locked
)
update penstock.jobs set state = 'ready', run_at = null
where id = any (array(select id from due))
returning lane

-- name: next_due
select extract(epoch from run_at - penstock.now())::float8
from penstock.jobs where state = 'later' order by run_at limit 1
