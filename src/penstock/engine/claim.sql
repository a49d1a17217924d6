-- name: find_lanes
select id, queue, kind, fairness_key from penstock.lanes where (queue, kind, fairness_key) in (
  select * from unnest(:queues::text[], :kinds::text[], :fairness_keys::text[])
)

-- name: add_lanes
-- Sorted, so that two processes that add the same lanes do not wait for each other in a circle.
insert into penstock.lanes (queue, kind, fairness_key)
select distinct * from unnest(:queues::text[], :kinds::text[], :fairness_keys::text[]) as wanted(queue, kind, fairness_key)
order by 1, 2, 3
on conflict do nothing

-- name: active_lanes
-- The lanes that have ready jobs, best band first, beginning after the cursor, with the verdict for this worker. A skip
-- scan: each hop is one probe of the index, whatever the number of jobs in a lane. With a band, a walk that was cut off
-- goes on from there.
with recursive
  first as (
    select coalesce(:band::smallint, priority) as priority
    from penstock.jobs where state = 'ready' and not quarantined order by jobs.priority limit 1
  ),
  ahead as (  -- from the cursor to the end of the band, then the bands after it
    select job.priority, job.lane, 1 as hop
    from (select priority, :cursor::int as lane from first) as here cross join lateral (
      -- include: gates.sql next_lane
    ) as job
    union all
    select job.priority, job.lane, here.hop + 1
    from ahead as here cross join lateral (
      -- include: gates.sql next_lane
    ) as job
    where here.hop < :hops::int
  ),
  behind as (  -- the part of the band before the cursor
    select job.priority, job.lane, 1 as hop
    from (select priority, 0 as lane from first) as here cross join lateral (
      -- include: gates.sql next_lane
    ) as job
    where :band::smallint is null and job.priority = here.priority and job.lane <= :cursor::int
    union all
    select job.priority, job.lane, here.hop + 1
    from behind as here cross join lateral (
      -- include: gates.sql next_lane
    ) as job
    where here.hop < :hops::int and job.priority = here.priority and job.lane <= :cursor::int
  ),
  -- include: gates.sql admission
select walked.priority, walked.lane, walked.behind,
  admission.queue, admission.kind, admission.fairness_key, admission.weight, admission.verdict
from (select priority, lane, false as behind from ahead union all select priority, lane, true from behind) as walked
join admission on admission.lane = walked.lane and admission.worker_id = :worker_id
order by walked.priority, walked.behind, walked.lane

-- name: claim_jobs
-- ready -> running. The new attempt number is the proof that every later statement shows.
with
  me as (  -- a worker that was declared gone must not own anything new: the declaration locks this row for update
    select id from penstock.workers where id = :worker_id and gone_at is null for key share
  ),
  -- include: gates.sql admission
  ,
  due as materialized (  -- a plain subquery may run again and exceed the limit
    select picked.id
    from me
    cross join unnest(:priorities::smallint[], :lanes::int[], :afters::bigint[], :takes::int[])
      as pick(priority, lane, after, take)
    join admission on admission.lane = pick.lane and admission.worker_id = :worker_id and admission.verdict = 'open'
    cross join lateral (
      -- Rows, compared as the index has them: with "priority = … and lane = … order by id" the planner may walk the
      -- primary key instead, and meet a million rows of a paused lane (980 ms against 1.5 ms).
      select id from penstock.jobs
      where state = 'ready' and not quarantined
        and (jobs.priority, jobs.lane, jobs.id) > (pick.priority, pick.lane, pick.after)
        and (jobs.priority, jobs.lane, jobs.id) < (pick.priority, pick.lane + 1, 0::bigint)
      order by jobs.priority, jobs.lane, jobs.id limit pick.take
      for update skip locked
    ) as picked
    limit :slots
  )
update penstock.jobs
set state = 'running', attempt = attempt + 1, worker_id = :worker_id, claimed_at = penstock.now()
where id = any (array(select id from due))  -- an array leaves the planner only the primary key
returning id, lane, priority, attempt, failures, quarantined, unique_key, unique_for, args

-- name: claim_quarantined
-- ready -> running, for one that was running when its worker was lost: only while this worker runs no other quarantined job.
with
  me as (
    select id from penstock.workers where id = :worker_id and gone_at is null for key share
  ),
  -- include: gates.sql admission
  ,
  due as materialized (
    select job.id
    from me
    cross join penstock.jobs as job
    join admission on admission.lane = job.lane and admission.worker_id = :worker_id and admission.verdict = 'open'
    where job.state = 'ready' and job.quarantined and admission.queue = any (:queues::text[])
      and admission.kind <> all (:closed_kinds::text[])  -- for lack of a permit in this worker
      and not exists (select from penstock.jobs where state = 'running' and worker_id = me.id and quarantined)
    order by job.id
    limit 1
    for update of job skip locked
  )
update penstock.jobs
set state = 'running', attempt = attempt + 1, worker_id = :worker_id, claimed_at = penstock.now()
where id = any (array(select id from due))
returning id, lane, priority, attempt, failures, quarantined, unique_key, unique_for, args

-- name: owned_jobs
select id, attempt from penstock.jobs where state = 'running' and worker_id = :worker_id

-- name: requeue_unknown
-- running -> ready: claimed for us by a statement whose answer never came. No handler runs it, and no other worker may take it.
update penstock.jobs
set state = 'ready', worker_id = null, claimed_at = null,
  attempts = attempts || row(attempt, worker_id, claimed_at, 0, 'requeued', 'the answer to the claim was lost')::penstock.attempt
where id = any (:ids::bigint[]) and worker_id = :worker_id
returning id

-- name: lane
select id, queue, kind, fairness_key from penstock.lanes where id = :id

-- name: wake_queues
select pg_notify('penstock_queue_' || queue, '') from unnest(:queues::text[]) as queue

-- name: wake_lanes
select pg_notify('penstock_queue_' || queue, '')
from (select distinct queue from penstock.lanes where id = any (:lanes::int[])) as woken
