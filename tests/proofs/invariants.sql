-- What the invariants of production (operations/invariants.sql) cannot know: `kept` has the rows that a schedule began with, and
-- `proofs.effects` what the jobs have done.

-- name: violations
select format('job %s is %s times among the living and %s times in the history', kept.id, live.times, past.times) as said
from kept.jobs as kept
cross join lateral (select count(*) as times from penstock.jobs where id = kept.id) as live
cross join lateral (select count(*) as times from penstock.job_history where id = kept.id) as past
where live.times + past.times <> 1
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
select format('job %s has %s ended tries and the number %s', id, ended, attempt)
from (
  select id, attempt, cardinality(attempts) as ended, state = 'running' as running from penstock.jobs
  union all
  select id, attempt, cardinality(attempts), false from penstock.job_history
) as everybody
where ended <> attempt - running::int
