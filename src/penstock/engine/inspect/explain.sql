-- name: explain_job
-- What `why` shows of any live job. Short, because it is planned again on each connection: what only a job that could run
-- needs is in explain_gates.
select
  job.id, job.lane, lane.queue, lane.kind, lane.fairness_key, job.state::text as state, job.priority, job.attempt, job.failures, job.quarantined,
  job.deaths, job.cancelling, job.claimed_at, job.run_at, job.enqueued_at, job.progress, job.error, job.fingerprint,
  job.worker_id, array_to_json(job.attempts)::text as attempts, penstock.now() as now,
  -- What a pace is compared with: since the first claim, unless a try has failed after that.
  case when job.failures = 0 then coalesce((job.attempts[1]).started_at, job.claimed_at) else job.claimed_at end as begun_at,
  owner.name as owner, owner.heartbeat_at as owner_heartbeat_at, owner.gone_at as owner_gone_at, owner.gone_why as owner_gone_why,
  owner.lease as owner_lease, owner.heartbeat_at + owner.lease < penstock.now() as owner_silent,
  (select count(*) from penstock.workers where gone_at is null) as workers
from penstock.jobs as job
join penstock.lanes as lane on lane.id = job.lane
left join penstock.workers as owner on owner.id = job.worker_id
where job.id = :id

-- name: explain_children
-- Of a job that waits: the children that it waits for, or the siblings among which it waits for its turn. And its state, as below.
select job.state::text as state, job.attempt, fanout.parent, fanout.name as map, fanout.total as children, fanout.unfinished as children_unfinished,
  fanout.at_once as children_at_once, coalesce(job.fanout = job.waits_for, false) as held,
  (select count(*) from penstock.jobs as child where child.fanout = job.waits_for and child.state = 'dead') as children_dead
from penstock.jobs as job left join penstock.fanouts as fanout on fanout.id = job.waits_for
where job.id = :id

-- name: explain_gates
-- Why a job that could run is not claimed, from the same predicates that the claim obeys; and its state, which may have changed
-- since the last query.
with
  job as (
    select job.*, lane.queue, lane.kind, lane.fairness_key
    from penstock.jobs as job join penstock.lanes as lane on lane.id = job.lane
    where job.id = :id
  ),
  -- include: ../gates.sql admission
  ,
  gates as (  -- one row per live worker, or one without a worker when there is none
    select admission.*, worker.heartbeat_at + worker.lease < penstock.now() as silent, worker.slots,
      (worker.load ->> 'running')::int as running,
      exists (
        select from penstock.jobs as other
        where other.state = 'running' and other.worker_id = admission.worker_id and other.quarantined
      ) as has_quarantined
    from admission
    join job on job.lane = admission.lane
    left join penstock.workers as worker on worker.id = admission.worker_id
  ),
  fleet as (
    select
      count(worker_id) as workers,
      count(*) filter (where verdict = 'open') as open_workers,
      count(*) filter (where verdict = 'open' and silent) as silent_workers,
      count(*) filter (where verdict = 'open' and not has_quarantined) as workers_without_quarantined,
      count(*) filter (where verdict = 'draining') as draining_workers,
      coalesce(sum(slots) filter (where verdict = 'open'), 0) as open_slots,
      coalesce(sum(running) filter (where verdict = 'open'), 0) as open_running
    from gates
  ),
  shut as (  -- the limit that keeps the job waiting: closed for all workers that serve it, or all permits of the others are in use
    select limit_name, verdict
    from (
      select shut_by as limit_name, verdict from gates
      where verdict in ('breaker', 'permits') and not exists (select from gates where verdict = 'open')
      union all
      select use.limit_name, 'permits in use'
      from job join penstock.uses as use on use.kind = job.kind
      where exists (select from gates where verdict = 'open') and not exists (
        select from gates
        join penstock.allotments as part on part.worker_id = gates.worker_id and part.limit_name = use.limit_name
        where gates.verdict = 'open' and use.amount <=
          case when part.used = 0 then part.granted else least(part.granted, floor(part.concurrency)) - part.used end
      )
    ) as closed
    order by verdict, limit_name limit 1
  )
select
  job.state::text as state, job.attempt,
  fleet.*,
  pause.paused_what, pause.paused_name, pause.paused_reason, pause.paused_since,
  former.name as last_server, former.gone_at as last_server_left_at, former.gone_why as last_server_left_why,
  shut.verdict as shut, bound.name as limit_name, bound.permits, bound.opened_at as breaker_opened_at,
  bound.rests_till as breaker_rests_till, bound.reason as breaker_reason,
  (select name from penstock.workers where id = bound.probe_by and bound.probe_till > penstock.now()) as breaker_prober,
  (
    select json_agg(json_build_object(
      'worker', worker.name, 'used', part.used, 'granted', part.granted, 'concurrency', round(part.concurrency::numeric, 1)
    ) order by worker.id)
    from penstock.allotments as part join penstock.workers as worker on worker.id = part.worker_id
    where part.limit_name = bound.name and worker.gone_at is null
  )::text as permits_of,
  -- Bounded: "more than a thousand" is as good an answer as the exact number. A probe of the claim's index for each band:
  -- a range over the bands would read those of all other lanes, too.
  (select count(*) from (
    select from generate_series(-100, job.priority) as band
    cross join lateral (
      select from penstock.jobs as before
      where before.state = 'ready' and not before.quarantined and before.priority = band and before.lane = job.lane
        and (band < job.priority or before.id < job.id)
      limit 1001
    ) as before
    limit 1001
  ) as before) as ahead_in_lane,
  (select count(*) from (
    select from penstock.jobs as before where before.state = 'ready' and before.quarantined and before.id < job.id limit 1001
  ) as before) as quarantined_ahead
from job
cross join fleet
left join shut on true
left join penstock.limits as bound on bound.name = shut.limit_name
left join lateral (
  select paused_what, paused_name, paused_reason, paused_since from gates where verdict = 'paused' limit 1
) as pause on true
left join lateral (
  select name, gone_at, gone_why from penstock.workers as worker
  where gone_at is not null and job.kind = any (kinds) and job.queue = any (queues)
  order by gone_at desc limit 1
) as former on true

-- name: may_see_schema
-- A request of a tenant may not.
select has_table_privilege('penstock.migrations', 'select')
