-- name: count_everywhere
-- By status. What is queued or failed is counted to a bound; what is ready follows from the tallies: what search sees, less those
-- of them whose newest version is not ready. Whether a queued one is processed (status.sql) is asked from the side of the jobs
-- that have begun, which are few: a look at the job of each that waits would cost more than all the rest.
with
  queued as (
    select count(*) as documents, count(live_id) as live
    from (select live_id from penstock.documents where state = 'queued' order by id limit :most::int) as few
  ),
  begun as materialized (
    (select id from penstock.jobs where state = 'running' limit :begun::int)
    union all
    select id from (
      (
        select id, attempt from penstock.jobs
        where state = 'waiting' and waits_for > 0 order by waits_for, id limit :begun::int
      )
      union all
      (
        select id, attempt from penstock.jobs
        where state = 'later' and run_at > '-infinity' order by run_at limit :begun::int
      )
    ) as resting
    where attempt > 0
    union  -- prepared, and their points are not there yet; each job once
    select job_id from (select distinct job_id from penstock.unpublished limit :begun::int) as prepared
  ),
  processing as (
    select count(*) as documents
    from begun
    cross join lateral (
      select from penstock.documents where job_id = begun.id and state = 'queued' offset 0  -- one look by the index for each
    ) as document
  ),
  failed as (
    select count(*) as documents, count(live_id) as live
    from (
      select failed.live_id
      from penstock.collections as collection
      cross join lateral (
        select live_id from penstock.documents
        where collection_id = collection.id and state = 'failed'
        limit :most::int
      ) as failed
      limit :most::int
    ) as few
  ),
  tally as (
    select coalesce(sum(documents), 0)::bigint as live, coalesce(sum(deleted), 0)::bigint as deleted from penstock.tallies
  )
select greatest(0, queued.documents - processing.documents) as queued, processing.documents as processing,
  greatest(0, tally.live - queued.live - failed.live) as ready, failed.documents as failed, tally.deleted
from queued cross join processing cross join failed cross join tally

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
