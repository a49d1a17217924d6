-- Each statement is read at every scrape, so its cost must not grow with the documents: it goes by an index that has only what
-- is unfinished, or stops counting at a bound.

-- name: count_dead
-- All jobs of a cause are of one kind and failed with the same type of error. So one of them, by one probe, shows whether it is the
-- content of documents: `unread`.
select lane.kind, lane.kind = any (:kinds::text[]) and one.type = any (:unreadable::text[]) as unread, sum(cause.count)::bigint as count
from (
  select fingerprint, count(*) as count
  from (select fingerprint from penstock.jobs where state = 'dead' order by fingerprint, id limit :most::int) as dead
  group by fingerprint
) as cause
cross join lateral (
  select job.lane, coalesce(job.error ->> 'type', '') as type from penstock.jobs as job
  where job.state = 'dead' and job.fingerprint = cause.fingerprint order by job.id limit 1
) as one
join penstock.lanes as lane on lane.id = one.lane
group by 1, 2 order by 1, 2

-- name: count_workers_lately
-- Workers that started or ended within an hour, of the newest; rows of those that are gone are kept for a week.
select
  count(*) filter (where started_at > penstock.now() - interval '1 hour') as started,
  count(*) filter (where gone_why = 'left') as left,
  count(*) filter (where gone_why = 'its process ended') as process_ended,
  count(*) filter (where gone_why = 'its lease ended') as lease_ended
from (
  select started_at, case when gone_at > penstock.now() - interval '1 hour' then gone_why end as gone_why
  from penstock.workers order by id desc limit :most::int
) as worker

-- name: count_duplicates
-- Schedules that do the same at the same moments, under two names. The same name cannot occur twice: it is the key.
select coalesce(sum(count - 1), 0)::bigint from (
  select count(*) as count from penstock.schedules
  where paused_at is null and retired_at is null
  group by rule, timezone, queue, kind, fairness_key, args::text
) as schedule

-- name: count_inbox
-- Messages that are waiting or failed: from source to source by one probe each.
with recursive source as (
  (select source as name from penstock.inbox where state <> 'taken' order by source limit 1)
  union all
  select next.name
  from source cross join lateral (
    select inbox.source as name from penstock.inbox where state <> 'taken' and inbox.source > source.name
    order by inbox.source limit 1
  ) as next
)
select source.name as source, message.state, count(*) as count
from (select name from source limit 1000) as source
cross join lateral (
  select state from penstock.inbox where inbox.source = source.name and state <> 'taken' order by id limit :most::int
) as message
group by source.name, message.state

-- name: list_sources
select name, error is not null as trouble, extract(epoch from penstock.now() - polled_at)::float8 as silent_for
from penstock.sources order by name limit 1000

-- name: count_findings
select known.name, known.found, (
    select count(*) from penstock.findings where check_name = known.name and ended_at is null
  ) as open
from penstock.checks as known where not starts_with(known.name, 'invariant-') order by known.name
