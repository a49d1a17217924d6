-- name: reserve_many
-- For a group of new documents: the collection, which cannot be deleted before our commit, and their ids. No row: it is gone.
with collection as (
  select id from penstock.collections where id = :collection and deleted_at is null for key share
)
select nextval('penstock.jobs_id_seq') as document, nextval('penstock.versions_id_seq') as version
from collection cross join generate_series(1, :count::int)

-- name: insert_documents
-- (new) -> queued, for a group. Fewer rows than were given: a name is taken.
with given as (
  select * from unnest(:documents::bigint[], :versions::bigint[], :jobs::bigint[], :blobs::bigint[], :names::text[], :by::text[],
    :metadata::text[]) as given(document, version, job, blob, name, uploaded_by, metadata)
),
document as (
  insert into penstock.documents (id, tenant, collection_id, name, version_id, job_id, uploaded_by, metadata)
  select document, :tenant, :collection, name, version, job, uploaded_by, metadata::jsonb from given
  on conflict (tenant, collection_id, name) where state <> 'deleted' do nothing
  returning id
),
version as (
  insert into penstock.versions (id, tenant, document_id, number, blob_id, job_id)
  select given.version, :tenant, given.document, 1, given.blob, given.job from given join document on document.id = given.document
),
told as (
  insert into penstock.events (tenant, collection_id, document_id, event, details)
  select :tenant, :collection, given.document, 'accepted', jsonb_build_object('version', 1, 'by', given.uploaded_by)
  from given join document on document.id = given.document
)
select count(*) as count, pg_notify('penstock_changed', '') from document
