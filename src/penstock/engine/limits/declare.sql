-- name: limits
-- For people: each limit with what the live workers have of it.
select bound.name, bound.permits, (to_jsonb(bound) ->> 'chosen')::int as chosen, bound.failures, bound.trips, bound.opened_at, bound.rests_till, bound.reason,
  case when bound.probe_till > penstock.now() then prober.name end as probe_by,
  case when bound.probe_till > penstock.now() then bound.probe_till end as probe_till,
  penstock.now() as now,
  array(select use.kind from penstock.uses as use where use.limit_name = bound.name order by use.kind) as kinds,
  (
    select coalesce(json_agg(json_build_object(
      'worker', worker.name, 'granted', part.granted, 'used', part.used, 'waiting', part.waiting, 'concurrency', part.concurrency
    ) order by worker.id), '[]')::text
    from penstock.allotments as part join penstock.workers as worker on worker.id = part.worker_id
    where part.limit_name = bound.name and worker.gone_at is null
  ) as workers
from penstock.limits as bound
left join penstock.workers as prober on prober.id = bound.probe_by
order by bound.name

-- name: choose_permits
-- By a person, in place of what workers declare; the workers read it with their next heartbeats.
update penstock.limits set permits = :permits::int, chosen = :permits::int where name = :name returning name

-- name: unchoose_permits
update penstock.limits set chosen = null where name = :name and chosen is not null returning name

-- name: largest_use
-- What one job of some kind needs at once.
select coalesce(max(amount), 1) from penstock.uses where limit_name = :name
