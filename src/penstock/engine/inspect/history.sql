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
