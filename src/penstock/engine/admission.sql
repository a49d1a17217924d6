-- name: count_lane
-- The jobs of a lane that wait, ready or later, counted to a bound. What runs is bounded by slots. By band, because the
-- claim's index begins with it; rows are compared as the indexes have them, so that the planner has no other way.
with recursive band as (
  (select priority from penstock.jobs where state = 'ready' and not quarantined order by priority limit 1)
  union all
  select job.priority
  from band cross join lateral (
    select priority from penstock.jobs
    where state = 'ready' and not quarantined and jobs.priority > band.priority order by jobs.priority limit 1
  ) as job
)
select count(*)::int from (
  select from band cross join lateral (
    select from penstock.jobs
    where state = 'ready' and not quarantined
      and (jobs.priority, jobs.lane, jobs.id) > (band.priority, :lane::int, 0::bigint)
      and (jobs.priority, jobs.lane, jobs.id) < (band.priority, :lane::int + 1, 0::bigint)
    order by jobs.priority, jobs.lane, jobs.id limit :most::int
  ) as job
  union all
  (
    select from penstock.jobs
    where state = 'later' and lane >= :lane::int and lane < :lane::int + 1 order by lane limit :most::int
  )
  limit :most::int
) as waiting

-- name: count_queue
-- The same over all lanes of a queue: from lane to lane by one probe each, and in the lane to the bound.
with recursive
  ready as (
    (
      select priority, lane from penstock.jobs where state = 'ready' and not quarantined
      order by priority, lane limit 1
    )
    union all
    select job.priority, job.lane
    from ready as here cross join lateral (
      -- include: gates.sql next_lane
    ) as job
  ),
  later as (
    (select lane from penstock.jobs where state = 'later' order by lane limit 1)
    union all
    select job.lane
    from later cross join lateral (
      select lane from penstock.jobs where state = 'later' and jobs.lane > later.lane order by lane limit 1
    ) as job
  )
select count(*)::int from (
  select from ready
  join penstock.lanes on lanes.id = ready.lane and lanes.queue = :queue
  cross join lateral (
    select from penstock.jobs
    where state = 'ready' and not quarantined
      and (jobs.priority, jobs.lane, jobs.id) > (ready.priority, ready.lane, 0::bigint)
      and (jobs.priority, jobs.lane, jobs.id) < (ready.priority, ready.lane + 1, 0::bigint)
    order by jobs.priority, jobs.lane, jobs.id limit :most::int
  ) as job
  union all
  select from later
  join penstock.lanes on lanes.id = later.lane and lanes.queue = :queue
  cross join lateral (
    select from penstock.jobs
    where state = 'later' and jobs.lane >= later.lane and jobs.lane < later.lane + 1
    order by jobs.lane limit :most::int
  ) as job
  limit :most::int
) as waiting
