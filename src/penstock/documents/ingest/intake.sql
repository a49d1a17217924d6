-- name: keep_blobs
-- What is there is locked against the collector; what was dated as unused is taken back, by a write that the collector sees.
with
  wanted as (
    select * from unnest(:keys::text[], :digests::bytea[], :sizes::bigint[]) as wanted(key, digest, size)
  ),
  found as materialized (
    select blob.id, blob.key, blob.digest, blob.size, blob.unused_at
    from penstock.blobs as blob
    join wanted on wanted.digest = blob.digest and wanted.size = blob.size
    where blob.tenant = :tenant and blob.state = 'kept'
    order by blob.digest for key share of blob
  ),
  taken_back as (
    update penstock.blobs set unused_at = null
    where id = any (array(select id from found where unused_at is not null)) and state = 'kept'
    returning id
  ),
  made as (
    insert into penstock.blobs (tenant, key, digest, size)
    select :tenant, key, digest, size from wanted
    where not exists (select from found where found.digest = wanted.digest)
    order by digest
    on conflict (tenant, digest, size) where state = 'kept' do nothing
    returning id, key, digest, size
  )
select id, key, digest, size from found where unused_at is null or id in (select id from taken_back)
union all
select id, key, digest, size from made

-- name: look_before
-- Before the upload: the collection, who has the name, and whether a live worker would prepare the document.
select collection.id as collection_id, existing.id as existing,
  exists (
    select from penstock.workers where
    -- include: ../../engine/fleet.sql serving
  ) as served
from penstock.collections as collection
left join penstock.documents as existing
  on existing.tenant = :tenant and existing.collection_id = collection.id and existing.name = :name and existing.state <> 'deleted'
where collection.tenant = :tenant and collection.name = :collection and collection.deleted_at is null

-- name: look_again
-- In the transaction: the collection, which cannot be deleted before our commit; who has the name; and ids for what will
-- be new, because the job's arguments name the document and its version, and both rows name the job.
select nextval('penstock.jobs_id_seq') as new_document, nextval('penstock.versions_id_seq') as new_version,
  document.id, document.state, document.job_id, document.version_id,
  coalesce(version.metadata, document.metadata) as metadata,
  version.number, live.number as live_number, blob.digest, blob.size, blob.key
from penstock.collections as collection
left join (
  penstock.documents as document
  join penstock.versions as version on version.id = document.version_id
  join penstock.blobs as blob on blob.id = version.blob_id
  left join penstock.versions as live on live.id = document.live_id
) on document.tenant = :tenant and document.collection_id = collection.id and document.name = :name
  and document.state <> 'deleted'
where collection.id = :collection and collection.deleted_at is null
for key share of collection

-- name: insert_document
-- (new) -> queued. No row: the name is taken.
with document as (
  insert into penstock.documents
    (id, tenant, collection_id, name, version_id, job_id, uploaded_by, metadata)
  values (:document, :tenant, :collection, :name, :version, :job, :uploaded_by, :metadata::jsonb)
  on conflict (tenant, collection_id, name) where state <> 'deleted' do nothing
  returning id
),
version as (
  insert into penstock.versions (id, tenant, document_id, number, blob_id, job_id)
  select :version, :tenant, id, 1, :blob, :job from document
),
told as (
  insert into penstock.events (tenant, collection_id, document_id, event, details)
  select :tenant, :collection, id, 'accepted', jsonb_build_object('version', 1, 'by', :uploaded_by::text) from document
)
select id, pg_notify('penstock_changed', '') from document

-- name: was_accepted
-- After a COMMIT without an answer.
select exists (select from penstock.versions where document_id = :document and number = :number and job_id = :job)

-- name: adopt
-- The row of bytes that were lost gets the key of the same bytes, which came again. Of two concurrent uploads, one wins.
update penstock.blobs set key = :key where key = :lost and state = 'kept' returning id
