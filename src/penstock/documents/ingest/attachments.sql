-- name: newest
select metadata, uploaded_by from penstock.documents
where id = :document and version_id = :version and state <> 'deleted'

-- name: members_of
select document.id, document.name, document.job_id, document.version_id, blob.digest
from penstock.documents as document
join penstock.versions as version on version.id = document.version_id
join penstock.blobs as blob on blob.id = version.blob_id
where document.parent_id = :parent and document.state <> 'deleted'

-- name: foreign_names
-- Names below this one that belong to other documents.
select name from penstock.documents
where tenant = :tenant and collection_id = :collection and state <> 'deleted'
  and starts_with(name, :prefix) and parent_id is distinct from :parent

-- name: reserve
select nextval('penstock.jobs_id_seq') as document, nextval('penstock.versions_id_seq') as version
from generate_series(1, :count::int)

-- name: insert_members
-- (new) -> queued
with member as (
  select * from unnest(:documents::bigint[], :versions::bigint[], :jobs::bigint[], :names::text[], :blobs::bigint[])
    as member(document, version, job, name, blob)
),
document as (
  insert into penstock.documents
    (id, tenant, collection_id, name, parent_id, depth, version_id, job_id, uploaded_by, metadata)
  select member.document, parent.tenant, parent.collection_id, member.name, parent.id, parent.depth + 1, member.version, member.job,
    parent.uploaded_by, parent.metadata
  from member join penstock.documents as parent on parent.id = :parent
  returning id, tenant, collection_id, version_id
),
version as (
  insert into penstock.versions (id, tenant, document_id, number, blob_id, job_id)
  select document.version_id, document.tenant, document.id, 1, member.blob, member.job
  from document join member on member.document = document.id
),
told as (
  insert into penstock.events (tenant, collection_id, document_id, event, details)
  select tenant, collection_id, id, 'accepted', jsonb_build_object('version', 1, 'parent', :parent::bigint) from document
)
select id, pg_notify('penstock_changed', '') from document

-- name: inside_of
with recursive inside as (
  select id from penstock.documents where parent_id = any (:ids::bigint[]) and state <> 'deleted'
  union all
  select document.id from penstock.documents as document join inside on document.parent_id = inside.id
  where document.state <> 'deleted'
)
select id from inside limit :most

-- name: inherit_metadata
-- The metadata of an upload hold for all its members, also for those that have not changed.
with recursive inside as (
  select id from penstock.documents where parent_id = :parent and state <> 'deleted'
  union all
  select document.id from penstock.documents as document join inside on document.parent_id = inside.id
  where document.state <> 'deleted'
)
update penstock.documents as document set metadata = parent.metadata, uploaded_by = parent.uploaded_by
from penstock.documents as parent
where parent.id = :parent and document.id = any (array(select id from inside))
  and (document.metadata, document.uploaded_by) is distinct from (parent.metadata, parent.uploaded_by)

-- name: count_attachments
-- Up to what was uploaded, and down again.
with recursive above as (
  select id, parent_id, version_id from penstock.documents where id = :document
  union all
  select document.id, document.parent_id, document.version_id
  from penstock.documents as document join above on document.id = above.parent_id
),
family as (
  select id, version_id, true as root from above where parent_id is null
  union all
  select document.id, document.version_id, false
  from penstock.documents as document join family on document.parent_id = family.id
)
select count(*) as documents, coalesce(sum(blob.size), 0)::bigint as size,
  greatest(coalesce(max(blob.size) filter (where family.root), 0), 1) as uploaded
from family
left join penstock.versions as version on version.id = family.version_id
left join penstock.blobs as blob on blob.id = version.blob_id
