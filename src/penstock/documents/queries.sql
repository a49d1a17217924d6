-- name: show_documents
-- include: fragments.sql document
where document.id = any (:ids::bigint[]) and document.tenant = :tenant
order by document.id

-- name: list_documents
-- All that are not deleted. What is asked more precisely has a statement of its own below, each with an index that has its
-- order: one statement for all, with conditions that may be null, would walk a million documents for the ten of a collection.
-- include: fragments.sql document
where document.tenant = :tenant and document.id > :after and document.state <> 'deleted'
order by document.id limit :most

-- name: list_in_collection
-- include: fragments.sql document
where document.tenant = :tenant and document.collection_id = :collection and document.id > :after
  and case when :status::text is null then document.state <> 'deleted' else document.state = :status end
order by document.id limit :most

-- name: list_members
-- include: fragments.sql document
where document.tenant = :tenant and document.parent_id = :parent and document.id > :after
  and (:collection::int is null or document.collection_id = :collection)
  and case
    when :status::text is null then document.state <> 'deleted'
    else :status =
      -- include: fragments.sql status
  end
order by document.id limit :most

-- name: list_partial
-- Whose live version has skipped pages. They are rare and have no index: the documents are walked by id.
-- include: fragments.sql document
where document.tenant = :tenant and document.id > :after and document.state <> 'deleted' and live.gaps <> '[]'
  and (:collection::int is null or document.collection_id = :collection)
order by document.id limit :most

-- name: list_in_state
-- Over the collections, because the index of what is not ready begins with them; the other states are rarely asked for so.
with page as materialized (
  select page.id
  from penstock.collections as collection
  cross join lateral (
    select document.id
    from penstock.documents as document
    left join penstock.jobs as job on job.id = document.job_id
    where document.collection_id = collection.id and document.state = :state and document.id > :after
      and :status =
        -- include: fragments.sql status
    order by document.id limit :most
  ) as page
  where collection.tenant = :tenant and case when :collection::int is null then true else collection.id = :collection end
  order by page.id limit :most
)
-- include: fragments.sql document
where document.id = any (array(select id from page)) and document.tenant = :tenant
order by document.id

-- name: find_documents
-- A name may have slashes itself, so that both ways to read the reference are tried. By each collection of the tenant, because the
-- index of names begins with it: a condition on the name alone would walk a million documents.
-- include: fragments.sql document
where document.id = any (array(
  select named.id
  from penstock.collections as owner
  cross join lateral (
    select id from penstock.documents
    where tenant = :tenant and collection_id = owner.id and state <> 'deleted'
      and name = any (array[:whole::text, case when owner.name = :collection then :rest::text end])
  ) as named
  where owner.tenant = :tenant and owner.deleted_at is null
  order by named.id limit 5
))
order by document.id

-- name: find_deleted_documents
-- The one that was deleted last; names of deleted documents are not unique.
-- include: fragments.sql document
where document.id = any (array(
  select gone.id
  from penstock.documents as gone join penstock.collections as owner on owner.id = gone.collection_id
  where gone.tenant = :tenant and gone.state = 'deleted' and gone.deleted_at is not null
    and gone.name = any (array[:whole::text, case when owner.name = :collection then :rest::text end])
  order by gone.deleted_at desc, gone.id desc limit 1
))

-- name: tenant_of
-- The tenant of a document, for a signed link, which names none.
select tenant from penstock.documents where id = :document and state <> 'deleted'

-- name: collection_id
select id from penstock.collections where tenant = :tenant and name = :name and deleted_at is null

-- name: count_documents
-- What is queued (or processing) and what is failed is counted by a small index, each to a bound. What is ready follows from the
-- tallies: live, and not one of those; beyond the bound it includes live documents whose newer version was not counted.
with
  wanted as (
    select id from penstock.collections
    where tenant = :tenant and (:collections::int[] is null or id = any (:collections::int[]))
  ),
  unready as (
    select
      count(*) filter (where status = 'queued') as queued,
      count(*) filter (where status = 'processing') as processing,
      count(*) filter (where status = 'failed') as failed,
      count(*) filter (where live_id is not null) as live
    from (
      select document.live_id,
        -- include: fragments.sql status
        as status
      from (
        (select few.* from wanted cross join lateral (
          select live_id, version_id, job_id, state from penstock.documents
          where collection_id = wanted.id and state = 'queued' limit :most::int
        ) as few limit :most::int)
        union all
        (select few.* from wanted cross join lateral (
          select live_id, version_id, job_id, state from penstock.documents
          where collection_id = wanted.id and state = 'failed' limit :most::int
        ) as few limit :most::int)
      ) as document
      left join penstock.jobs as job on job.id = document.job_id
    ) as document
  ),
  tally as (
    select coalesce(sum(documents), 0)::bigint as live, coalesce(sum(deleted), 0)::bigint as deleted
    from penstock.tallies where collection_id in (select id from wanted)
  )
select unready.queued, unready.processing, tally.live - unready.live as ready, unready.failed, tally.deleted
from unready cross join tally

-- name: read_text
-- The rest of the page that is being read, or the beginning of the next one.
select number, substr(text, case when number = :page then :start::int else 0 end + 1, :piece::int) as text,
  case when number = :page then :start::int else 0 end + :piece::int as stop
from penstock.pages
where version_id = :version and number >= :page
  and (number > :page or length(text) > :start::int)
order by number limit 1

-- name: list_pages
select number, text, ocr from penstock.pages
where version_id = :version and number > :after order by number limit :most

-- name: list_chunks
select ordinal as number, page, start, stop, heading, text from penstock.chunks
where version_id = :version and ordinal > :after order by ordinal limit :most

-- name: list_events
select id, at, event, details from penstock.events where document_id = :document and id > :after order by id limit :most

-- name: wanted
-- The collections that are searched; each has an index of its documents that begins with it.
collection.tenant = :tenant and collection.deleted_at is null
  and (:collections::int[] is null or collection.id = any (:collections::int[]))

-- name: shown
-- All facts about the documents of a page.
-- include: fragments.sql document
where document.id = any (array(select id from page)) and document.tenant = :tenant
order by document.id desc

-- name: newest
-- The newest documents before an id.
with page as materialized (
  select page.id
  from penstock.collections as collection
  cross join lateral (
    select document.id from penstock.documents as document
    where document.collection_id = collection.id and document.id < :before and document.state <> 'deleted'
    order by document.id desc limit :most
  ) as page
  where
    -- include: queries.sql wanted
  order by page.id desc limit :most
)
-- include: queries.sql shown

-- name: newest_failed
-- The same of those that have failed, by the small index of what is not ready.
with page as materialized (
  select page.id
  from penstock.collections as collection
  cross join lateral (
    select document.id from penstock.documents as document
    where document.collection_id = collection.id and document.id < :before and document.state = 'failed'
    order by document.id desc limit :most
  ) as page
  where
    -- include: queries.sql wanted
  order by page.id desc limit :most
)
-- include: queries.sql shown

-- name: newest_queued
-- The same of those that wait or are processed: which of the two, their jobs know.
with page as materialized (
  select page.id
  from penstock.collections as collection
  cross join lateral (
    select document.id from penstock.documents as document
    left join penstock.jobs as job on job.id = document.job_id
    where document.collection_id = collection.id and document.id < :before and document.state = 'queued'
      and :status =
        -- include: fragments.sql status
    order by document.id desc limit :most
  ) as page
  where
    -- include: queries.sql wanted
  order by page.id desc limit :most
)
-- include: queries.sql shown

-- name: look_through
-- For conditions that no index has: filters so many documents before an id, and returns how far it came: below `last` nothing was
-- read; 0 is the end. Each collection gives its part; where one has more, the others are not read below that either.
with
  wanted as materialized (
    select id from penstock.collections
    where tenant = :tenant and deleted_at is null and (:collections::int[] is null or id = any (:collections::int[]))
  ),
  part as materialized (
    select greatest(10, :window::int / greatest(1, (select count(*) from wanted)))::int as size
  ),
  taken as materialized (
    select wanted.id as collection_id, page.id, page.name, page.state, page.media_type, page.created_at
    from wanted
    cross join lateral (
      select document.id, document.name, document.state, document.media_type, document.created_at
      from penstock.documents as document
      where document.collection_id = wanted.id and document.id < :before
      order by document.id desc limit (select size from part)
    ) as page
  ),
  reached as materialized (
    select coalesce(max(lowest), 0) as last from (
      select min(id) as lowest from taken group by collection_id having count(*) >= (select size from part)
    ) as full_part
  ),
  looked as materialized (
    select * from taken where id >= (select last from reached)
  ),
  matching as (
    select id from looked
    where case when :state::text is null then state <> 'deleted' else state = :state end
      and (:name::text is null or strpos(lower(name), lower(:name)) > 0)
      and (:media_type::text is null or media_type = :media_type or starts_with(media_type, :media_type || '/'))
      and (:since::timestamptz is null or created_at >= :since)
      and (:until::timestamptz is null or created_at < :until)
    order by id desc limit :most
  )
select array(select id from matching order by id desc) as ids, (select count(*) from looked)::int as looked,
  (select last from reached) as last, (select min(created_at) from looked) as oldest

-- name: newest_in_state
-- Their ids alone, by the small index of what is not ready.
select page.id
from penstock.collections as collection
cross join lateral (
  select document.id from penstock.documents as document
  where document.collection_id = collection.id and document.id < :before and document.state = :state
  order by document.id desc limit :most
) as page
where
  -- include: queries.sql wanted
order by page.id desc limit :most

-- name: sort_matching
-- A page of these documents in the order that a person has chosen, and how many of them there are.
select document.id, count(*) over () as total
from penstock.documents as document
left join penstock.jobs as job on job.id = document.job_id
left join penstock.versions as newest on newest.id = document.version_id
left join penstock.blobs as blob on blob.id = newest.blob_id
left join penstock.versions as live on live.id = document.live_id
where document.id = any (:ids::bigint[]) and document.tenant = :tenant
  and case when :status::text is null then true else :status =
    -- include: fragments.sql status
  end
order by
  case when :order = 'name' then lower(document.name) end,
  case :order when 'size' then blob.size when 'pages' then live.pages end desc nulls last,
  case when :order = 'changed' then document.changed_at end desc,
  case when :order = 'oldest' then document.id end,
  document.id desc
offset :offset limit :most

-- name: at_number
-- When the first document from an id on was added.
select first.id, first.created_at
from penstock.collections as collection
cross join lateral (
  select id, created_at from penstock.documents
  where documents.collection_id = collection.id and documents.id >= :number order by id limit 1
) as first
where
  -- include: queries.sql wanted
order by first.id limit 1

-- name: largest
select coalesce(max(last.id), 0)
from penstock.collections as collection
cross join lateral (
  select id from penstock.documents where documents.collection_id = collection.id order by id desc limit 1
) as last
where collection.tenant = :tenant and (:collections::int[] is null or collection.id = any (:collections::int[]))

-- name: attempts
-- The ended attempts of all jobs that a document ever had: its versions name theirs, and events name those of retries.
with job as (
  select job_id as id from penstock.versions where document_id = :document and job_id is not null
  union
  select job_id from penstock.documents where id = :document and job_id is not null
  union
  select number::bigint from penstock.events as event
  cross join lateral (values (event.details ->> 'job'), (event.details ->> 'before')) as told(number)
  where event.document_id = :document and event.event in ('retried', 'prepared') and number is not null
),
tried as (
  select job.id, live.attempts from job join penstock.jobs as live on live.id = job.id
  union all
  select job.id, past.attempts from job join penstock.job_history as past on past.id = job.id
)
select tried.id as job, attempt.number, attempt.started_at, attempt.seconds, attempt.outcome, attempt.error,
  coalesce(worker.name, attempt.worker_id::text) as worker
from tried cross join lateral unnest(tried.attempts) as attempt(number, worker_id, started_at, seconds, outcome, error)
left join penstock.workers as worker on worker.id = attempt.worker_id
order by attempt.started_at, tried.id, attempt.number limit :most

-- name: list_versions
-- Only the newest can be under way or have failed: what was not live when the next one came is dead.
select version.number,
  case
    when version.id = document.live_id then 'live'
    when version.id <> document.version_id or document.state = 'deleted' then 'dead'
    when document.state = 'failed' then 'failed'
    else 'preparing'
  end as state,
  blob.digest, blob.size, version.accepted_at, version.prepared_at
from penstock.documents as document
join penstock.versions as version on version.document_id = document.id
join penstock.blobs as blob on blob.id = version.blob_id
where document.id = :document and document.tenant = :tenant and version.number > :after
order by version.number limit :most

-- name: blob_of
-- The media type was found in the version that is live; another one may be of another type.
select document.name, document.state, newest.number as newest, version.number, blob.key, blob.digest, blob.size,
  case when version.id = document.live_id then document.media_type end as media_type
from penstock.documents as document
join penstock.versions as newest on newest.id = document.version_id
left join (
  penstock.versions as version join penstock.blobs as blob on blob.id = version.blob_id and blob.state = 'kept'
) on version.document_id = document.id and version.number = coalesce(:version::int, newest.number)
where document.id = :document and document.tenant = :tenant
