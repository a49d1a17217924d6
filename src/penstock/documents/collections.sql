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
update penstock.collections set deleted_at = penstock.now() where id = :id

-- name: undeleted
select id from penstock.documents where collection_id = :id and state <> 'deleted' order by id limit :most
