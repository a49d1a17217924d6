-- name: walked
-- The lanes with ready jobs, by band: a skip scan over the claim's index, so that the cost depends on the bounds and not on the
-- backlog.
walked as (
  (
    select priority, lane, 1 as hop from penstock.jobs where state = 'ready' and not suspect
    order by priority, lane limit 1
  )
  union all
  select job.priority, job.lane, walked.hop + 1
  from walked cross join lateral (
    select priority, lane from penstock.jobs
    where state = 'ready' and not suspect and (priority, lane) > (walked.priority, walked.lane)
    order by priority, lane limit 1
  ) as job
  where walked.hop < :most_lanes::int
)

-- name: waiting_lanes
-- The lanes with ready jobs, how many (counted to a bound), the oldest, and whether any live worker may take them.
with recursive
  -- include: census.sql walked
  ,
  counted as (
    select walked.lane, sum(few.count)::int as depth, min(oldest.enqueued_at) as oldest_at, min(oldest.id) as oldest_id
    from walked
    cross join lateral (
      select count(*) as count from (
        select from penstock.jobs
        where state = 'ready' and not suspect and jobs.priority = walked.priority and jobs.lane = walked.lane
        limit greatest(:least_rows::int, :most_rows::int / (select count(*)::int from walked))
      ) as row
    ) as few
    cross join lateral (
      select id, enqueued_at from penstock.jobs
      where state = 'ready' and not suspect and jobs.priority = walked.priority and jobs.lane = walked.lane
      order by id limit 1
    ) as oldest
    group by walked.lane
  ),
  -- include: gates.sql admission
  ,
  gates as (
    select lane, queue, kind, share, bool_or(verdict = 'paused') as paused, bool_or(verdict = 'open') as open,
      bool_or(verdict in ('breaker', 'permits')) as shut
    from admission where lane in (select lane from counted)
    group by lane, queue, kind, share
  )
select gates.queue, gates.kind, gates.share, gates.paused, gates.open, gates.shut, counted.depth, counted.oldest_id,
  penstock.now() - counted.oldest_at as oldest_age
from counted join gates on gates.lane = counted.lane
order by counted.oldest_at

-- name: count_states
-- Live jobs by state, each counted to a bound in its own small index.
select
  (select count(*) from (
    select 1 from penstock.jobs where state = 'ready' and not suspect
    union all select 1 from penstock.jobs where state = 'ready' and suspect limit :most::int
  ) as row) as ready,
  (select count(*) from (select from penstock.jobs where state = 'later' limit :most::int) as row) as later,
  (select count(*) from (select from penstock.jobs where state = 'running' limit :most::int) as row) as running,
  (select count(*) from (select from penstock.jobs where state = 'waiting' limit :most::int) as row) as waiting,
  (select count(*) from (select from penstock.jobs where state = 'dead' limit :most::int) as row) as dead

-- name: count_workers
-- Alive: not declared gone, and within the lease.
select count(*) from penstock.workers where gone_at is null and beat_at + lease >= penstock.now()

-- name: membership
-- How the fleet sees one worker.
select gone_at, gone_why, lease, penstock.now() - beat_at as silent_for from penstock.workers where id = :worker_id

-- name: served_waits
-- The age of the oldest ready job that was never tried, for each kind that a live worker may take. The same walk, with a few
-- looks into each lane instead of a count.
with recursive
  -- include: census.sql walked
  ,
  fresh as (
    select walked.lane, min(oldest.enqueued_at) as enqueued_at
    from walked
    cross join lateral (
      select enqueued_at from (
        select enqueued_at, attempt from penstock.jobs
        where state = 'ready' and not suspect and jobs.priority = walked.priority and jobs.lane = walked.lane
        order by id limit :looked_at::int
      ) as job
      where job.attempt = 0
    ) as oldest
    group by walked.lane
  ),
  -- include: gates.sql admission
select admission.queue, admission.kind,
  extract(epoch from penstock.now() - min(fresh.enqueued_at))::float8 as seconds
from fresh join admission on admission.lane = fresh.lane and admission.verdict = 'open'
group by admission.queue, admission.kind
order by 3 desc
