-- name: wanted
-- The collections that are looked into; each has an index of its documents that begins with it.
collection.tenant = :tenant and collection.deleted_at is null
  and (:collections::int[] is null or collection.id = any (:collections::int[]))

-- name: shown
-- All facts about the documents of a page.
-- include: facts.sql document
where document.id = any (array(select id from page)) and document.tenant = :tenant
order by document.id desc

-- name: newest
-- The newest documents before a number.
with page as materialized (
  select page.id
  from penstock.collections as collection
  cross join lateral (
    select document.id from penstock.documents as document
    where document.collection_id = collection.id and document.id < :before and document.state <> 'deleted'
    order by document.id desc limit :most
  ) as page
  where
    -- include: browsing.sql wanted
  order by page.id desc limit :most
)
-- include: browsing.sql shown

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
    -- include: browsing.sql wanted
  order by page.id desc limit :most
)
-- include: browsing.sql shown

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
        -- include: status.sql status
    order by document.id desc limit :most
  ) as page
  where
    -- include: browsing.sql wanted
  order by page.id desc limit :most
)
-- include: browsing.sql shown

-- name: look_through
-- For conditions that no index has: looks at so many documents before a number, and says how far it came: below `last` nothing was
-- looked at; 0 is the end. Each collection gives its part; where one has more, the others are not looked at below that either.
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

-- name: at_number
-- When the first document from a number on came.
select first.id, first.created_at
from penstock.collections as collection
cross join lateral (
  select id, created_at from penstock.documents
  where documents.collection_id = collection.id and documents.id >= :number order by id limit 1
) as first
where
  -- include: browsing.sql wanted
order by first.id limit 1

-- name: largest
select coalesce(max(last.id), 0)
from penstock.collections as collection
cross join lateral (
  select id from penstock.documents where documents.collection_id = collection.id order by id desc limit 1
) as last
where collection.tenant = :tenant and (:collections::int[] is null or collection.id = any (:collections::int[]))
