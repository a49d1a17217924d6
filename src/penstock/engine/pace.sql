-- name: recent_jobs
-- The last jobs that ended, by their numbers, for which the history has an index; not by the time, for which it has none. How
-- long each took from its first claim on, with the waits for its children and without those after failures.
recent as materialized (
  select id, lane, args, extract(epoch from finished_at - (attempts[1]).started_at)::float as seconds
  from (select * from penstock.job_history order by id desc limit :most::int) as past
  where outcome = 'done' and failures = 0 and cardinality(attempts) > 0
)

-- name: pace
-- Of a kind, and of its whole queue.
with
  -- include: pace.sql recent_jobs
select
  count(*) filter (where lane.kind = :kind) as jobs,
  percentile_cont(0.5) within group (order by seconds) filter (where lane.kind = :kind) as usual,
  percentile_cont(0.9) within group (order by seconds) filter (where lane.kind = :kind) as long,
  avg(seconds) as of_queue
from recent join penstock.lanes as lane on lane.id = recent.lane
where lane.queue = :queue and recent.seconds >= 0

-- name: line
-- The other lanes whose jobs go in turn with those of a lane: in its queue, as urgent or more, and open to some live worker. Each
-- is counted to a bound, by a skip scan over the claim's index.
with recursive
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
        and priority <= :priority::smallint
      order by priority, lane limit 1
    ) as job
    where walked.hop < :most_lanes::int
  ),
  rivals as (
    select lane.id, sum(few.count)::int as depth
    from walked join penstock.lanes as lane on lane.id = walked.lane and lane.queue = :queue and lane.id <> :lane
    cross join lateral (
      select count(*) as count from (
        select from penstock.jobs
        where state = 'ready' and not suspect and jobs.priority = walked.priority and jobs.lane = walked.lane
        limit :most_rows::int
      ) as row
    ) as few
    where walked.priority <= :priority::smallint
    group by lane.id
  ),
  -- include: gates.sql admission
select depth from rivals
where exists (select from admission where admission.lane = rivals.id and admission.verdict = 'open')
