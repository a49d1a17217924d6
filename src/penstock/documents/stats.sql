-- name: count_everywhere
-- By status. What is queued or failed is counted to a bound; what is ready follows from the tallies: what search sees, less those
-- of them whose newest version is not ready. Whether a queued one is processed (fragments.sql) is asked from the side of the jobs
-- that have begun, which are few: reading the job of each that waits would cost more than all the rest.
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
-- What happened to documents within an hour: the newest events, by their id.
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

-- name: has_minutes
-- A release may meet a schema that is one step older.
select to_regclass('penstock.minutes') is not null

-- name: count_minutes
-- Counts the events since the mark, whole minutes again, and moves the mark to where the last minutes begin: they are counted
-- again next time, for an event may be committed after one with a larger id.
with
  mark as materialized (
    select event, since from penstock.minutes_mark
    union all
    -- Never counted: from a day ago on.
    select coalesce((select min(id) from penstock.events where at >= penstock.now() - interval '1 day'), 0),
      date_trunc('minute', penstock.now() - interval '1 day')
    where not exists (select from penstock.minutes_mark)
    limit 1
  ),
  fresh as materialized (
    select event.id, event.tenant, event.collection_id, event.at, event.event
    from mark cross join penstock.events as event
    where event.id >= mark.event and event.at >= mark.since
    order by event.id limit :most::int
  ),
  counted as (
    insert into penstock.minutes as known (tenant, collection_id, minute, accepted, ready, failed)
    select min(tenant), collection_id, date_trunc('minute', at),
      count(*) filter (where event in ('accepted', 'replaced')),
      count(*) filter (where event = 'ready'),
      count(*) filter (where event in ('failed', 'cancelled', 'discarded'))
    from fresh where event in ('accepted', 'replaced', 'ready', 'failed', 'cancelled', 'discarded')
    group by collection_id, date_trunc('minute', at)
    on conflict (collection_id, minute) do update
    set accepted = excluded.accepted, ready = excluded.ready, failed = excluded.failed
    where (known.accepted, known.ready, known.failed) <> (excluded.accepted, excluded.ready, excluded.failed)
    returning 1
  ),
  again as (  -- of a long backlog only a part was read: up to where that was
    select least(
      date_trunc('minute', penstock.now()) - :again::interval,
      case when (select count(*) from fresh) >= :most::int then (select date_trunc('minute', max(at)) from fresh) end
    ) as since
  ),
  moved as (
    insert into penstock.minutes_mark as known (event, since)
    select coalesce((select min(id) from fresh where at >= again.since), (select max(id) + 1 from fresh), mark.event),
      greatest(again.since, mark.since)
    from again cross join mark
    on conflict (only_one) do update set event = excluded.event, since = excluded.since
    returning 1
  )
select (select count(*) from counted)::int as minutes, (select count(*) from moved)::int as moved

-- name: sample_waiting
-- How many wait in each collection now, counted to a bound, and for how long the oldest has.
insert into penstock.minutes as known (tenant, collection_id, minute, waiting, oldest)
select collection.tenant, collection.id, date_trunc('minute', penstock.now()), few.count,
  extract(epoch from penstock.now() - oldest.changed_at)
from penstock.collections as collection
cross join lateral (
  select changed_at from penstock.documents
  where collection_id = collection.id and state = 'queued' order by id limit 1
) as oldest
cross join lateral (
  select count(*) as count from (
    select from penstock.documents where collection_id = collection.id and state = 'queued' limit :most::int
  ) as row
) as few
where collection.deleted_at is null
on conflict (collection_id, minute) do update set waiting = excluded.waiting, oldest = excluded.oldest

-- name: forget_minutes
with old as (
  select ctid from penstock.minutes where minute < penstock.now() - :kept::interval order by minute limit :batch::int
)
delete from penstock.minutes where ctid = any (array(select ctid from old))

-- name: read_mark
-- Asked by itself: under row-level security, a number that a subquery gives is compared with each event, and not with the index.
select event, since, penstock.now() as now from (select) as one left join penstock.minutes_mark on true

-- name: read_minutes
-- What was counted, and after the mark what has happened since, up to a bound.
with
  counted as (
    select minute, accepted, ready, failed, waiting, oldest
    from penstock.minutes
    where minute >= penstock.now() - :span::interval and tenant = :tenant
      and (:collections::int[] is null or collection_id = any (:collections::int[]))
  ),
  fresh as (
    select at, event from penstock.events
    where id >= :event::bigint and tenant = :tenant
      and (:collections::int[] is null or collection_id = any (:collections::int[]))
    order by id desc limit :most::int
  ),
  every as (
    select minute, accepted, ready, failed, waiting, oldest from counted where minute < :since::timestamptz
    union all
    select minute, 0, 0, 0, waiting, oldest from counted where minute >= :since::timestamptz and waiting > 0
    union all
    select date_trunc('minute', at),
      (event in ('accepted', 'replaced'))::int, (event = 'ready')::int, (event in ('failed', 'cancelled', 'discarded'))::int, 0, 0
    from fresh where at >= :since::timestamptz and at >= penstock.now() - :span::interval
  )
select date_bin(:step::interval, minute, timestamptz '2000-01-01') as at, sum(accepted)::int as accepted, sum(ready)::int as ready,
  sum(failed)::int as failed, max(oldest)::real as oldest, max(waiting)::int as waiting
from every group by 1 order by 1

-- name: waiting_now
-- For each collection: how many wait for their first claim, counted to a bound, and for how long the oldest has.
select collection.name, few.count as waiting, penstock.now() - oldest.changed_at as oldest
from penstock.collections as collection
cross join lateral (
  select id, changed_at from penstock.documents
  where collection_id = collection.id and state = 'queued' order by id limit 1
) as oldest
cross join lateral (
  select count(*) as count from (
    select from penstock.documents where collection_id = collection.id and state = 'queued' limit :most::int
  ) as row
) as few
where collection.tenant = :tenant and collection.deleted_at is null
  and (:collections::int[] is null or collection.id = any (:collections::int[]))
order by few.count desc, collection.name limit 100
