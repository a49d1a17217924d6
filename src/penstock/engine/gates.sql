-- Fragments that the claim, `why` and the counts share.

-- name: admission
-- Whether a worker may take jobs from a lane. The claim obeys it, and `why` explains it.
admission as (
  select
    lane.id as lane, lane.queue, lane.kind, lane.fairness_key,
    coalesce(weight.weight, 1) as weight,
    worker.id as worker_id,
    pause.what as paused_what, pause.name as paused_name, pause.reason as paused_reason, pause.since as paused_since,
    shut.limit_name as shut_by,
    case
      when pause.since is not null then 'paused'
      when worker.id is null then 'unserved'
      when not (lane.queue = any (worker.queues) and lane.kind = any (worker.kinds)) then 'unserved'
      when worker.draining then 'draining'
      when shut.verdict is not null then shut.verdict
      else 'open'
    end as verdict
  from penstock.lanes as lane
  left join penstock.fairness_weights as weight on weight.name = lane.fairness_key
  left join lateral (
    select what, name, reason, since
    from penstock.pauses
    where (what, name) in (('queue', lane.queue), ('kind', lane.kind), ('fairness_key', lane.fairness_key))
    order by since limit 1
  ) as pause on true
  left join penstock.workers as worker on worker.gone_at is null
  left join lateral (  -- what the kind needs of a limit, and this worker may not have: nothing for kinds without such needs
    select use.limit_name, case when bound.opened_at is null then 'permits' else 'breaker' end as verdict
    from penstock.uses as use
    join penstock.limits as bound on bound.name = use.limit_name
    left join penstock.allotments as part on part.limit_name = use.limit_name and part.worker_id = worker.id
    where use.kind = lane.kind and (
      (bound.opened_at is not null and (bound.probe_by is distinct from worker.id or bound.probe_till <= penstock.now()))
      or coalesce(part.granted, 0) < use.amount
    )
    order by bound.opened_at is null, use.limit_name limit 1
  ) as shut on true
)

-- name: next_lane
-- One hop of a skip scan over the claim's index: the first lane with ready jobs after `here`.
select priority, lane from penstock.jobs
where state = 'ready' and not quarantined and (priority, lane) > (here.priority, here.lane)
order by priority, lane limit 1

-- name: walked
-- The lanes with ready jobs, by band: a skip scan over the claim's index, so that the cost depends on the bounds and not on the
-- backlog.
walked as (
  (
    select priority, lane, 1 as hop from penstock.jobs where state = 'ready' and not quarantined
    order by priority, lane limit 1
  )
  union all
  select job.priority, job.lane, here.hop + 1
  from walked as here cross join lateral (
    -- include: gates.sql next_lane
  ) as job
  where here.hop < :most_lanes::int
)
