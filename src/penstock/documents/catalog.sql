-- name: show_documents
-- include: facts.sql document
where document.id = any (:ids::bigint[]) and document.tenant = :tenant
order by document.id

-- name: list_documents
-- All that are not deleted. What is asked more precisely has a statement of its own below, each with an index that has its
-- order: one statement for all, with conditions that may be null, would walk a million documents for the ten of a collection.
-- include: facts.sql document
where document.tenant = :tenant and document.id > :after and document.state <> 'deleted'
order by document.id limit :most

-- name: list_in_collection
-- include: facts.sql document
where document.tenant = :tenant and document.collection_id = :collection and document.id > :after
  and case when :status::text is null then document.state <> 'deleted' else document.state = :status end
order by document.id limit :most

-- name: list_members
-- include: facts.sql document
where document.tenant = :tenant and document.parent_id = :parent and document.id > :after
  and (:collection::int is null or document.collection_id = :collection)
  and case
    when :status::text is null then document.state <> 'deleted'
    else :status =
      -- include: status.sql status
  end
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
        -- include: status.sql status
    order by document.id limit :most
  ) as page
  where collection.tenant = :tenant and case when :collection::int is null then true else collection.id = :collection end
  order by page.id limit :most
)
-- include: facts.sql document
where document.id = any (array(select id from page)) and document.tenant = :tenant
order by document.id

-- name: find_documents
-- A name may have slashes itself, so that both ways to read the reference are tried.
-- include: facts.sql document
where document.tenant = :tenant and document.state <> 'deleted' and collection.deleted_at is null
  and (document.name = :whole or (collection.name = :collection and document.name = :rest))
order by document.id limit 5

-- name: tenant_of
-- For who has a link to it and is nobody else.
select tenant from penstock.documents where id = :document and state <> 'deleted'

-- name: collection_id
select id from penstock.collections where tenant = :tenant and name = :name and deleted_at is null

-- name: count_documents
-- What is queued or failed is counted by a small index; what is ready follows from the tallies: live, and not one of those.
with
  wanted as (
    select id from penstock.collections
    where tenant = :tenant and case when :collection::int is null then true else id = :collection end
  ),
  unready as (
    select
      count(*) filter (where status = 'queued') as queued,
      count(*) filter (where status = 'processing') as processing,
      count(*) filter (where status = 'failed') as failed,
      count(*) filter (where live_id is not null) as live
    from (
      select document.live_id,
        -- include: status.sql status
        as status
      from penstock.documents as document
      left join penstock.jobs as job on job.id = document.job_id
      where document.state in ('queued', 'failed') and document.collection_id in (select id from wanted)
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

-- name: history
select id, at, event, details from penstock.events where document_id = :document and id > :after order by id limit :most
