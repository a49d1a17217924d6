-- name: shown
-- What a list tells of a job.
job.id, lane.queue, lane.kind, lane.share, job.state::text as state, job.priority, job.attempt, job.failures,
job.run_at, job.enqueued_at, job.worker_id, job.progress, job.error ->> 'message' as error

-- name: wanted
-- Whether a job is in a lane that the caller wants to see. Below an "or" it stays a look into a table of their numbers: a join
-- would cost the order.
(:any_lane::boolean or lane in (
  select id from penstock.lanes
  where (:kind::text is null or kind = :kind) and (:queue::text is null or queue = :queue)
    and (:share::text is null or share = :share)
))

-- name: walk_jobs
-- All states, or one that many are in: by number, through a bounded number of jobs. The join comes last, so that the walk ends
-- with the last job of the page.
select
  -- include: listing.sql shown
from (
  select * from (select * from penstock.jobs where id > :after order by id limit :window::int) as near
  where (:state::text is null or state = :state::text::penstock.job_state) and
    -- include: listing.sql wanted
  order by id limit :most::int
) as job
join penstock.lanes as lane on lane.id = job.lane
order by job.id

-- name: walked_to
-- The last job of the window, if there are that many.
select id from penstock.jobs where id > :after order by id offset :window::int - 1 limit 1

-- Each state that can be rare has a small index of its own, which gives all of them to a bound, in the order of that index: asked for in
-- another order, the planner may walk all jobs instead.

-- name: few_ready
with few as materialized (
  (
    select id, lane from penstock.jobs where state = 'ready' and not suspect
    order by priority, lane, id limit :bound::int
  )
  union all
  (select id, lane from penstock.jobs where state = 'ready' and suspect order by id limit :bound::int)
)
-- include: listing.sql page_of_few

-- name: few_later
with few as materialized (
  select id, lane from penstock.jobs where state = 'later' order by run_at limit :bound::int
)
-- include: listing.sql page_of_few

-- name: few_running
with few as materialized (
  select id, lane from penstock.jobs where state = 'running' order by worker_id limit :bound::int
)
-- include: listing.sql page_of_few

-- name: few_waiting
with few as materialized (
  select id, lane from penstock.jobs where state = 'waiting' order by waits_for, id limit :bound::int
)
-- include: listing.sql page_of_few

-- name: few_dead
with few as materialized (
  select id, lane from penstock.jobs where state = 'dead' order by fingerprint, id limit :bound::int
)
-- include: listing.sql page_of_few

-- name: page_of_few
-- How many there are, to the bound, and the page of them; a row without a job if the page is empty.
select counted.seen,
  -- include: listing.sql shown
from (select count(*) as seen from few) as counted
left join (
  select id from few where id > :after and
    -- include: listing.sql wanted
  order by id limit :most::int
) as page on true
left join penstock.jobs as job on job.id = page.id
left join penstock.lanes as lane on lane.id = job.lane
order by job.id
