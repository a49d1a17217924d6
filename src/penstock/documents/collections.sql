-- name: create_collection
insert into penstock.collections as collection
  (tenant, name, model, chunk_size, chunk_overlap, ocr_language, search_language, index, has_points)
values (:tenant, :name, :model, :chunk_size, :chunk_overlap, :ocr_language, :search_language, :index, :index = 'qdrant')
on conflict (tenant, name) where deleted_at is null do nothing
returning
  -- include: fragments.sql collection_facts

-- name: find_collection
select
  -- include: fragments.sql collection_facts
  , tally.documents, tally.chunks,
  -- include: fragments.sql becoming
from penstock.collections as collection
-- include: fragments.sql collection_tally
left join penstock.jobs as job on job.id = coalesce(collection.next_job, collection.index_job)
where collection.tenant = :tenant and collection.name = :name and collection.deleted_at is null

-- name: find_collection_by_id
select
  -- include: fragments.sql collection_facts
  , collection.has_points, tally.documents, tally.chunks,
  -- include: fragments.sql becoming
from penstock.collections as collection
-- include: fragments.sql collection_tally
left join penstock.jobs as job on job.id = coalesce(collection.next_job, collection.index_job)
where collection.id = :collection

-- name: list_collections
select
  -- include: fragments.sql collection_facts
  , tally.documents, tally.chunks,
  -- include: fragments.sql becoming
from penstock.collections as collection
-- include: fragments.sql collection_tally
left join penstock.jobs as job on job.id = coalesce(collection.next_job, collection.index_job)
where collection.tenant = :tenant and collection.name > :after and collection.deleted_at is null
order by collection.name limit :most

-- name: lock_collection
select
  -- include: fragments.sql collection_facts
  , collection.next_model, collection.next_job, collection.model_turn, collection.next_index, collection.index_job,
  collection.index_turn, collection.has_points
from penstock.collections as collection
where collection.tenant = :tenant and collection.name = :name and collection.deleted_at is null
for update

-- name: has_documents
select exists (select from penstock.documents where collection_id = :id and state <> 'deleted')

-- name: change_collection
update penstock.collections
set name = :name, chunk_size = :chunk_size, chunk_overlap = :chunk_overlap, ocr_language = :ocr_language,
  search_language = :search_language
where id = :id

-- name: mark_deleted
update penstock.collections set deleted_at = penstock.now(), restorable_until = penstock.now() + :grace::interval where id = :id
returning restorable_until

-- name: undeleted
-- Nothing once the collection is restored.
select document.id from penstock.documents as document
join penstock.collections as collection on collection.id = document.collection_id and collection.deleted_at is not null
where document.collection_id = :id and document.state <> 'deleted' order by document.id limit :most

-- name: lock_deleted
-- The last of this name that was deleted.
select id, coalesce(restorable_until > penstock.now(), false) as in_time from penstock.collections
where tenant = :tenant and name = :name and deleted_at is not null
order by deleted_at desc limit 1 for update

-- name: end_restore_window
update penstock.collections set restorable_until = null where id = :id

-- name: in_restore_window
select document_id from penstock.removals where collection_id = :id and due_at > penstock.now() limit :most

-- name: mark_restored
update penstock.collections set deleted_at = null, restorable_until = null where id = :id

-- name: deleted_with_collection
-- Not members, which come back with their parents, nor documents whose names are taken.
select removal.document_id as id from penstock.removals as removal
join penstock.documents as document on document.id = removal.document_id
where removal.collection_id = :id and removal.reason = :reason and removal.due_at > penstock.now()
  and not exists (select from penstock.removals as whole where whole.document_id = document.parent_id)
  and not exists (
    select from penstock.documents as other
    where other.tenant = document.tenant and other.collection_id = document.collection_id and other.name = document.name
      and other.state <> 'deleted'
  )
order by removal.document_id limit :most
