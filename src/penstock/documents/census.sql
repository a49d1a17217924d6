-- name: count_everywhere
-- By status. What is queued or failed is counted to a bound; what is ready follows from the tallies: what search sees, less
-- those of them whose newest version is not ready.
with
  queued as materialized (
    select document.live_id,
      -- include: status.sql status
      as status
    from (
      select id, state, live_id, job_id from penstock.documents where state = 'queued' order by id limit :most::int
    ) as document
    left join penstock.jobs as job on job.id = document.job_id
  ),
  failed as materialized (
    select failed.live_id
    from penstock.collections as collection
    cross join lateral (
      select live_id from penstock.documents
      where collection_id = collection.id and state = 'failed'
      limit :most::int
    ) as failed
    limit :most::int
  ),
  tally as (
    select coalesce(sum(documents), 0)::bigint as live, coalesce(sum(deleted), 0)::bigint as deleted from penstock.tallies
  )
select
  (select count(*) from queued where status = 'queued') as queued,
  (select count(*) from queued where status = 'processing') as processing,
  greatest(0, tally.live - (select count(live_id) from queued) - (select count(live_id) from failed)) as ready,
  (select count(*) from failed) as failed,
  tally.deleted
from tally

-- name: count_lately
-- What happened to documents within an hour: the newest events, by their number.
select
  count(*) filter (where event in ('accepted', 'replaced')) as accepted,
  count(*) filter (where event = 'ready' and gaps = 0) as ready,
  count(*) filter (where event = 'ready' and gaps > 0) as partial,
  count(*) filter (where event in ('failed', 'discarded')) as failed
from (
  select event, at, coalesce((details ->> 'gaps')::int, 0) as gaps
  from (select event, at, details from penstock.events order by id desc limit :most::int) as newest
  where at > penstock.now() - interval '1 hour' and event in ('accepted', 'replaced', 'ready', 'failed', 'discarded')
) as event
