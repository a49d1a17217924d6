-- name: page
-- By number alone: before ANALYZE has seen the table, a condition on the state would make the planner read all of it.
select id from penstock.blobs where id > :after order by id limit :most

-- name: these
-- By id, and by nothing else (offset 0): before ANALYZE has seen the table, the planner would read all of the partial index of
-- kept blobs.
(select id, key, size, state from penstock.blobs where id = any (:blobs::bigint[]) offset 0)

-- name: kept
select id, key, size from
-- include: blobs.sql these
as blob where state = 'kept'

-- name: users
-- The documents that have these bytes, some of very many, if they are still kept. One that waits will fail by itself, and say why.
select blob.id as blob_id, blob.key, usage.document, usage.tenant, usage.name, usage.collection, sharing.documents
from
-- include: blobs.sql these
as blob
cross join lateral (
  select count(distinct version.document_id) as documents from penstock.versions as version where version.blob_id = blob.id
) as sharing
cross join lateral (
  select distinct on (document.id) document.id as document, document.tenant, document.name, collection.name as collection
  from penstock.versions as version
  join penstock.documents as document on document.id = version.document_id
  join penstock.collections as collection on collection.id = document.collection_id
  where version.blob_id = blob.id and document.state <> 'deleted'
    and not (document.state = 'queued' and version.id = document.version_id)
  order by document.id limit :most
) as usage
where blob.state = 'kept'
order by blob.id, usage.document
