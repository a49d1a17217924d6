-- name: shown
-- What a list shows of a job.
job.id, lane.queue, lane.kind, lane.fairness_key, job.state::text as state, job.priority, job.attempt, job.failures,
job.run_at, job.enqueued_at, job.worker_id, job.progress, job.error ->> 'message' as error

-- name: wanted
-- Whether a job is in a lane that the caller wants to see. Below an "or" it stays a lookup in a table of their ids: a join
-- would cost the order.
(:any_lane::boolean or lane in (
  select id from penstock.lanes
  where (:kind::text is null or kind = :kind) and (:queue::text is null or queue = :queue)
    and (:fairness_key::text is null or fairness_key = :fairness_key)
))

-- name: walk_jobs
-- All live jobs, or a state that many are in: by id, through a bounded number of jobs. The join comes last, so that the walk ends
-- with the last job of the page.
select
  -- include: queries.sql shown
from (
  select * from (select * from penstock.jobs where id > :after order by id limit :window::int) as near
  where case when :state::text is null then state <> 'dead' else state = :state::text::penstock.job_state end and
    -- include: queries.sql wanted
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
    select id, lane from penstock.jobs where state = 'ready' and not quarantined
    order by priority, lane, id limit :bound::int
  )
  union all
  (select id, lane from penstock.jobs where state = 'ready' and quarantined order by id limit :bound::int)
)
-- include: queries.sql page_of_few

-- name: few_later
with few as materialized (
  select id, lane from penstock.jobs where state = 'later' order by run_at limit :bound::int
)
-- include: queries.sql page_of_few

-- name: few_running
with few as materialized (
  select id, lane from penstock.jobs where state = 'running' order by worker_id limit :bound::int
)
-- include: queries.sql page_of_few

-- name: few_waiting
with few as materialized (
  select id, lane from penstock.jobs where state = 'waiting' order by waits_for, id limit :bound::int
)
-- include: queries.sql page_of_few

-- name: few_dead
with few as materialized (
  select id, lane from penstock.jobs where state = 'dead' order by fingerprint, id limit :bound::int
)
-- include: queries.sql page_of_few

-- name: page_of_few
-- How many there are, to the bound, and the page of them; a row without a job if the page is empty.
select counted.seen,
  -- include: queries.sql shown
from (select count(*) as seen from few) as counted
left join (
  select id from few where id > :after and
    -- include: queries.sql wanted
  order by id limit :most::int
) as page on true
left join penstock.jobs as job on job.id = page.id
left join penstock.lanes as lane on lane.id = job.lane
order by job.id

-- name: waiting_lanes
-- The lanes with ready jobs, how many (counted to a bound), the oldest, and whether any live worker may take them.
with recursive
  -- include: ../gates.sql walked
  ,
  counted as (
    select walked.lane, sum(few.count)::int as ready, min(oldest.enqueued_at) as oldest_at, min(oldest.id) as oldest_id
    from walked
    cross join lateral (
      select count(*) as count from (
        select from penstock.jobs
        where state = 'ready' and not quarantined and jobs.priority = walked.priority and jobs.lane = walked.lane
        limit greatest(:least_rows::int, :most_rows::int / (select count(*)::int from walked))
      ) as row
    ) as few
    cross join lateral (
      select id, enqueued_at from penstock.jobs
      where state = 'ready' and not quarantined and jobs.priority = walked.priority and jobs.lane = walked.lane
      order by id limit 1
    ) as oldest
    group by walked.lane
  ),
  -- include: ../gates.sql admission
  ,
  gates as (
    select lane, queue, kind, fairness_key, bool_or(verdict = 'paused') as paused, bool_or(verdict = 'open') as open,
      bool_or(verdict in ('breaker', 'permits')) as shut
    from admission where lane in (select lane from counted)
    group by lane, queue, kind, fairness_key
  )
select gates.queue, gates.kind, gates.fairness_key, gates.paused, gates.open, gates.shut, counted.ready, counted.oldest_id,
  penstock.now() - counted.oldest_at as oldest_age
from counted join gates on gates.lane = counted.lane
order by counted.oldest_at

-- name: count_states
-- Live jobs by state, each counted to a bound in its own small index.
select 'ready' as state, count(*) from (select from penstock.jobs where state = 'ready' and not quarantined limit :most::int) as few
union all select 'quarantined', count(*) from (select from penstock.jobs where state = 'ready' and quarantined limit :most::int) as few
union all select 'later', count(*) from (select from penstock.jobs where state = 'later' limit :most::int) as few
union all select 'running', count(*) from (select from penstock.jobs where state = 'running' limit :most::int) as few
union all select 'waiting', count(*) from (select from penstock.jobs where state = 'waiting' limit :most::int) as few
union all select 'dead', count(*) from (select from penstock.jobs where state = 'dead' limit :most::int) as few

-- name: count_jobs
-- The live jobs of all fairness keys or one, by state, each counted to a bound: how many have a live worker, how many were tried before.
with
  lane as materialized (select id from penstock.lanes where fairness_key = :fairness_key),
  job as (
    (select 'ready' as state, attempt, worker_id from penstock.jobs
    where state = 'ready' and not quarantined and (:fairness_key::text is null or lane in (select id from lane)) limit :most::int)
    union all
    (select 'ready', attempt, worker_id from penstock.jobs
    where state = 'ready' and quarantined and (:fairness_key::text is null or lane in (select id from lane)) limit :most::int)
    union all
    (select 'later', attempt, worker_id from penstock.jobs
    where state = 'later' and (:fairness_key::text is null or lane in (select id from lane)) limit :most::int)
    union all
    (select 'running', attempt, worker_id from penstock.jobs
    where state = 'running' and (:fairness_key::text is null or lane in (select id from lane)) limit :most::int)
    union all
    (select 'waiting', attempt, worker_id from penstock.jobs
    where state = 'waiting' and (:fairness_key::text is null or lane in (select id from lane)) limit :most::int)
    union all
    (select 'dead', attempt, worker_id from penstock.jobs
    where state = 'dead' and (:fairness_key::text is null or lane in (select id from lane)) limit :most::int)
  )
select job.state, count(*) as count, count(worker.id) as leased, count(*) filter (where job.attempt > 0) as attempted
from job
left join penstock.workers as worker
  on worker.id = job.worker_id and worker.gone_at is null and worker.heartbeat_at + worker.lease >= penstock.now()
group by job.state

-- name: count_workers
-- Alive: not declared gone, and within the lease.
select count(*) from penstock.workers where gone_at is null and heartbeat_at + lease >= penstock.now()

-- name: served_waits
-- The age of the oldest ready job that was never tried, for each kind that a live worker may take. The same walk, with a few
-- probes of each lane instead of a count.
with recursive
  -- include: ../gates.sql walked
  ,
  fresh as (
    select walked.lane, min(oldest.enqueued_at) as enqueued_at
    from walked
    cross join lateral (
      select enqueued_at from (
        select enqueued_at, attempt from penstock.jobs
        where state = 'ready' and not quarantined and jobs.priority = walked.priority and jobs.lane = walked.lane
        order by id limit :looked_at::int
      ) as job
      where job.attempt = 0
    ) as oldest
    group by walked.lane
  ),
  -- include: ../gates.sql admission
select admission.queue, admission.kind,
  extract(epoch from penstock.now() - min(fresh.enqueued_at))::float8 as seconds
from fresh join admission on admission.lane = fresh.lane and admission.verdict = 'open'
group by admission.queue, admission.kind
order by 3 desc

-- name: recent_jobs
-- The last jobs that ended, by their ids, for which the history has an index; not by the time, for which it has none. How
-- long each took from its first claim on, with the waits for its children and without those after failures.
recent as materialized (
  select id, lane, args, extract(epoch from finished_at - (attempts[1]).started_at)::float as seconds
  from (select * from penstock.job_history order by id desc limit :most::int) as past
  where outcome = 'done' and failures = 0 and cardinality(attempts) > 0
)

-- name: pace
-- Of a kind, and of its whole queue.
with
  -- include: queries.sql recent_jobs
select
  count(*) filter (where lane.kind = :kind) as jobs,
  percentile_cont(0.5) within group (order by seconds) filter (where lane.kind = :kind) as usual,
  percentile_cont(0.9) within group (order by seconds) filter (where lane.kind = :kind) as long,
  avg(seconds) as of_queue
from recent join penstock.lanes as lane on lane.id = recent.lane
where lane.queue = :queue and recent.seconds >= 0

-- name: rivals
-- The other lanes whose jobs go in turn with those of a lane: in its queue, as urgent or more, and open to some live worker. Each
-- is counted to a bound.
with recursive
  -- include: ../gates.sql walked
  ,
  rivals as (
    select lane.id, sum(few.count)::int as ready
    from walked join penstock.lanes as lane on lane.id = walked.lane and lane.queue = :queue and lane.id <> :lane
    cross join lateral (
      select count(*) as count from (
        select from penstock.jobs
        where state = 'ready' and not quarantined and jobs.priority = walked.priority and jobs.lane = walked.lane
        limit :most_rows::int
      ) as row
    ) as few
    where walked.priority <= :priority::smallint
    group by lane.id
  ),
  -- include: ../gates.sql admission
select ready from rivals
where exists (select from admission where admission.lane = rivals.id and admission.verdict = 'open')

-- name: list_finished
-- By id, through a bounded number of jobs: the history has an index for that alone.
select past.id, lane.queue, lane.kind, lane.fairness_key, past.outcome, past.attempt, past.enqueued_at, past.finished_at,
  extract(epoch from past.finished_at - (past.attempts[1]).started_at)::float8 as seconds, past.args, past.result,
  past.error ->> 'message' as error
from (
  select * from (
    select * from penstock.job_history where id < :before order by id desc limit :window::int
  ) as near
  where (:outcome::text is null or outcome = :outcome)
    and (:kind::text is null or lane in (select id from penstock.lanes where kind = :kind))
  order by id desc limit :most::int
) as past
join penstock.lanes as lane on lane.id = past.lane
order by past.id desc

-- name: walked_back_to
-- The last job of the window, if there are that many.
select id from penstock.job_history where id < :before order by id desc offset :window::int - 1 limit 1

-- name: ended_by_queue
select lane.queue, date_trunc('minute', past.finished_at) as minute, count(*)::int as jobs
from (select lane, finished_at from penstock.job_history order by id desc limit :most::int) as past
join penstock.lanes as lane on lane.id = past.lane
where past.finished_at > penstock.now() - :span::interval
group by 1, 2

-- name: running_by_stage
select lane.queue, lane.kind, coalesce(job.step, '') as step, count(*)::int as running
from (
  select lane, progress ->> 'step' as step from penstock.jobs where state = 'running' order by worker_id limit :most::int
) as job
join penstock.lanes as lane on lane.id = job.lane
group by 1, 2, 3
order by 4 desc, 1, 2, 3

-- name: durations_by_kind
with
  -- include: queries.sql recent_jobs
select lane.queue, lane.kind, count(*)::int as jobs,
  percentile_cont(0.5) within group (order by recent.seconds) as usual,
  percentile_cont(0.9) within group (order by recent.seconds) as long
from recent join penstock.lanes as lane on lane.id = recent.lane
where recent.seconds >= 0
group by 1, 2
order by 5 desc

-- name: list_steps
select step, made_at, seconds::float8 as seconds from penstock.checkpoints
where own and job_id = :job order by made_at limit :most::int
