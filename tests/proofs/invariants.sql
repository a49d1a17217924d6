-- What must be true of everything that is committed, at every moment. `kept` has the rows that a schedule began with.

-- name: violations
select format('job %s is %s times among the living and %s times in the history', kept.id, live.times, past.times) as said
from kept.jobs as kept
cross join lateral (select count(*) as times from penstock.jobs where id = kept.id) as live
cross join lateral (select count(*) as times from penstock.job_history where id = kept.id) as past
where live.times + past.times <> 1
union all
select format('job %s is in the history %s times', id, count(*)) from penstock.job_history group by id having count(*) > 1
union all
select format('job %s is alive and in the history', jobs.id)
from penstock.jobs join penstock.job_history on job_history.id = jobs.id
union all
select format('the attempt number of job %s shrank from %s to %s', kept.id, kept.attempt, past.attempt)
from kept.jobs as kept join penstock.job_history as past on past.id = kept.id where past.attempt < kept.attempt
union all
select format('job %s had its effect %s times', job, count(*)) from proofs.effects group by job having count(*) > 1
union all
select format('job %s had its effect, and is not done', job) from proofs.effects
where not exists (
  select from penstock.job_history
  where id = effects.job and outcome = 'done' and job_history.attempt = effects.attempt
)
union all
select format('job %s is running, and worker %s does not exist', jobs.id, jobs.worker_id)
from penstock.jobs where state = 'running' and not exists (select from penstock.workers where id = jobs.worker_id)
union all
select format('job %s has %s ended tries and the number %s', id, ended, attempt)
from (
  select id, attempt, cardinality(attempts) as ended, state = 'running' as running from penstock.jobs
  union all
  select id, attempt, cardinality(attempts), false from penstock.job_history
) as everybody
where ended <> attempt - running::int
union all
select format('the key %s is held by job %s, which is over', key, job_id) from penstock.job_keys
where until is null and not exists (select from penstock.jobs where id = job_keys.job_id)
union all
select format('job %s is alive without its key %s', id, unique_key) from penstock.jobs
where unique_key is not null and not exists (
  select from penstock.job_keys where key = jobs.unique_key and job_id = jobs.id and until is null
)
union all
-- The children that are alive and not dead are what a fan-out has not finished, as long as anybody wants them.
select format('fan-out %s counts %s unfinished children, and there are %s', fanouts.id, unfinished, alive.times)
from penstock.fanouts join penstock.jobs as parent on parent.id = fanouts.parent and not parent.cancelling
cross join lateral (
  select count(*) as times from penstock.jobs where fanout = fanouts.id and state <> 'dead'
) as alive
where unfinished <> alive.times
union all
select format('job %s waits for fan-out %s, of which nobody is left', jobs.id, waits_for)
from penstock.jobs left join penstock.fanouts on fanouts.id = waits_for
where state = 'waiting' and jobs.fanout is distinct from waits_for and coalesce(fanouts.unfinished, 0) = 0
union all
select format('limit %s has given %s permits of %s', limits.name, sum(granted), permits)
from penstock.limits join penstock.allotments on limit_name = limits.name
join penstock.workers on workers.id = worker_id and gone_at is null
group by limits.name, permits having sum(granted) > permits
