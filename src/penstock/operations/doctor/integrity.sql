-- name: open_findings
-- The oldest of each check as examples.
select check_name, count(*) as count,
  json_agg(json_build_object('subject', subject, 'document', document_id, 'tenant', tenant, 'sentence', sentence, 'advice', advice,
    'repair', repair, 'found_at', found_at, 'seen', seen) order by turn) filter (where turn <= :examples)::text as examples
from (
  select *, row_number() over (partition by check_name order by id) as turn from penstock.findings
  where ended_at is null and starts_with(check_name, 'invariant-') = :invariants::boolean
) as finding
group by check_name order by check_name

-- name: stale_checks
-- Checks that did not run for long although a worker could have run them all the time. If none ever did, the first is missing.
with serving as (
  select min(started_at) as since from penstock.workers
  where gone_at is null and not draining and heartbeat_at + lease >= penstock.now() and :kind = any (kinds)
)
select name, penstock.now() - greatest(looked_at, serving.since) as silent_for
from penstock.checks join serving on serving.since is not null
where penstock.now() - greatest(looked_at, serving.since) > :stale_after::interval
  and starts_with(name, 'invariant-') = starts_with(:first, 'invariant-')
union all
select 'all', penstock.now() - since from serving
where penstock.now() - since > :stale_after::interval and not exists (select from penstock.checks where name = :first)
order by silent_for desc, name

-- name: repaired_lately
select distinct on (max(repaired_at) over (partition by check_name), check_name) check_name, sentence, repair,
  count(*) over (partition by check_name) as count
from penstock.findings
where repaired_at > penstock.now() - interval '1 day' and ended_at is not null
order by max(repaired_at) over (partition by check_name) desc, check_name, repaired_at desc
