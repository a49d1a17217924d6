-- name: note_missing_locks
-- The first of two looks: whose session lock is absent, and what was true at that moment. One that is back is forgiven.
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
  unlocked_at_beat = case when looked.absent then worker.beat_at end,
  unlocked_at_server = case when looked.absent then pg_postmaster_start_time() end
from looked
where worker.id = looked.id and (
  (not looked.absent and worker.unlocked_at is not null)
  or (looked.absent and (worker.unlocked_at_beat, worker.unlocked_at_server)
      is distinct from (worker.beat_at, pg_postmaster_start_time()))
)

-- name: declare_gone
-- The second look, at least half a second later: still no lock, no beat in between, and the same server. Everybody else is
-- left to the lease. Never by taking the lock: that would make a dead worker look alive to the next one who asks.
with held as materialized (
  select objid::bigint as worker_id from pg_locks
  where locktype = 'advisory' and granted and classid = hashtext('penstock worker')::int8::bit(32)::int8::oid
    and database = (select oid from pg_database where datname = current_database())
),
gone as (
  select worker.id, worker.beat_at + worker.lease < penstock.now() as expired
  from penstock.workers as worker
  where worker.gone_at is null and worker.id <> :worker_id and (
    worker.beat_at + worker.lease < penstock.now()
    or (
      worker.unlocked_at <= penstock.now() - interval '0.5 s'
      and worker.unlocked_at_beat = worker.beat_at
      and worker.unlocked_at_server = pg_postmaster_start_time()
      and worker.id not in (select worker_id from held)
    )
  )
  for update skip locked  -- against a claim or a beat that is under way: look again next time
)
update penstock.workers as worker
set gone_at = penstock.now(), gone_why = case when gone.expired then 'its lease ended' else 'its process ended' end
from gone where worker.id = gone.id
returning worker.id, worker.name, worker.gone_why

-- name: gone_with_jobs
-- Workers that are gone and still own something. An index-only look at what runs.
select distinct worker_id from penstock.jobs
where state = 'running'
  and worker_id in (select id from penstock.workers where gone_at is not null and gone_at > penstock.now() - interval '1 day')

-- name: rescue_jobs
-- running -> ready as a suspect, or dead after two deaths as a lonely suspect; what was to be cancelled is cancelled.
-- A death is charged only to a suspect: there was at most one of them in the worker.
with lost as (
  select id from penstock.jobs where state = 'running' and worker_id = :gone_id limit :bite for update skip locked
)
update penstock.jobs
set state = case when suspect and deaths + 1 >= :deaths_allowed then 'dead' else 'ready' end::penstock.job_state,
  suspect = not (suspect and deaths + 1 >= :deaths_allowed),
  deaths = case when suspect then deaths + 1 else deaths end,
  error = case when suspect and deaths + 1 >= :deaths_allowed then json_build_object(
    'class', 'Poison', 'type', 'WorkerLost', 'traceback', '', 'fingerprint', 'poison-' || lane, 'code', '',
    'message', format('Its worker was lost %s times while it ran as the only suspect.', deaths + 1)) else error end,
  fingerprint = case when suspect and deaths + 1 >= :deaths_allowed then 'poison-' || lane else fingerprint end,
  worker_id = null, claimed_at = null, progress = null,
  attempts = attempts || row(attempt, worker_id, claimed_at, extract(epoch from penstock.now() - claimed_at), 'lost',
    'the worker was lost')::penstock.attempt
where id = any (array(select id from lost))
returning id, lane, state::text as state, cancelling, fanout

-- name: end_sessions
-- A frozen process keeps the locks of its transactions. In the middle of a message, between Parse and Bind, the server waits
-- for the rest without any timeout: neither idle in a transaction nor running a statement. So who is gone loses the sessions
-- whose transactions began before that. The mark is that of session.py.
select pg_terminate_backend(session.pid)
from penstock.workers as worker
join pg_stat_activity as session on session.application_name like 'penstock-%'
  and split_part(session.application_name, ' ', 2) = right(worker.name, 40)
where worker.id = :gone_id and worker.gone_at is not null
  and session.datname = current_database() and session.usename = current_user and session.pid <> pg_backend_pid()
  and session.xact_start < statement_timestamp() - (penstock.now() - worker.gone_at)

-- name: promote_jobs
-- later -> ready, in bounded bites, by every worker.
with due as (
  select id from penstock.jobs where state = 'later' and run_at <= penstock.now() order by run_at limit :bite
  for update skip locked
)
update penstock.jobs set state = 'ready', run_at = null
where id = any (array(select id from due))
returning lane

-- name: next_due
select extract(epoch from run_at - penstock.now())::float8
from penstock.jobs where state = 'later' order by run_at limit 1
