-- name: page
-- By number alone: before ANALYZE has seen the table, a condition on the state would make the planner read all of it.
select id from penstock.blobs where id > :after order by id limit :most

-- name: kept
select id, key, size from penstock.blobs where id = any (:blobs::bigint[]) and state = 'kept'

-- name: users
-- The documents that have these bytes, if they are still kept. One that waits will fail by itself, and say why.
select distinct on (blob.id, document.id) blob.id as blob_id, blob.key, document.id as document, document.tenant, document.name,
  collection.name as collection,
  (select count(distinct other.document_id) from penstock.versions as other where other.blob_id = blob.id) as documents
from penstock.blobs as blob
join penstock.versions as version on version.blob_id = blob.id
join penstock.documents as document on document.id = version.document_id
join penstock.collections as collection on collection.id = document.collection_id
where blob.id = any (:blobs::bigint[]) and blob.state = 'kept' and document.state <> 'deleted'
  and not (document.state = 'queued' and version.id = document.version_id)
order by blob.id, document.id
