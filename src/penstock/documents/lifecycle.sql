-- name: failed_job
select document.job_id, document.version_id, document.tenant, collection.name as collection,
  exists (select from penstock.packets where version_id = document.version_id) as packet,
  exists (select from penstock.jobs as job where job.id = document.job_id and job.state = 'dead') as dead
from penstock.documents as document join penstock.collections as collection on collection.id = document.collection_id
where document.id = :document and document.state = 'failed'

-- name: lock_failed
-- No live job of its own may be left: two would prepare one version.
select id from penstock.documents
where id = :document and state = 'failed' and job_id is not distinct from :job
  and not exists (select from penstock.jobs where jobs.id = documents.job_id)
for update

-- name: queue_again
-- failed -> queued
with before as materialized (
  select job_id from penstock.documents where id = :document
),
again as (
  update penstock.documents set state = 'queued', error = null, job_id = :job, changed_at = penstock.now()
  where id = :document
  returning tenant, collection_id, id, version_id
),
version as (
  update penstock.versions set job_id = :job where id = (select version_id from again)
)
insert into penstock.events (tenant, collection_id, document_id, event, details)
select tenant, collection_id, id, 'retried', jsonb_build_object('job', :job::bigint, 'before', before.job_id) from again cross join before
returning pg_notify('penstock_changed', '')

-- name: dismiss
with dismissed as (
  update penstock.documents set dismissed_at = penstock.now()
  where id = :document and state = 'failed' and dismissed_at is null
  returning tenant, collection_id, id
)
insert into penstock.events (tenant, collection_id, document_id, event, details)
select tenant, collection_id, id, 'dismissed', jsonb_build_object('by', :by::text) from dismissed
returning pg_notify('penstock_changed', '')

-- name: list_unread
-- Of each collection the newest failed documents, by one index range each. A member of a packet that failed has a class alone.
select document.*, count(*) over () as count
from penstock.collections as collection
cross join lateral (
  select id, collection.name as collection, name, coalesce(error ->> 'type', error ->> 'class') as cause,
    coalesce(error ->> 'message', '') as reason, changed_at as failed_at
  from (
    select id, name, error, changed_at, dismissed_at from penstock.documents
    where collection_id = collection.id and state = 'failed' order by id desc limit :counted::int
  ) as failed
  where dismissed_at is null and coalesce(error ->> 'type', error ->> 'class') = any (:types::text[])
) as document
where (:tenant::text is null or collection.tenant = :tenant) and (:collection::text is null or collection.name = :collection)
  and (:among::int[] is null or collection.id = any (:among))
order by document.id desc limit :most::int

-- name: lock_for_replacement
-- As the caller saw it: the same job, whose lock we have, and the same version.
select id, nextval('penstock.versions_id_seq') as version from penstock.documents
where id = :document and state <> 'deleted' and job_id is not distinct from :job and version_id = :version
for update

-- name: add_version
-- ready, failed or queued -> queued, with the old version live until the new one is ready.
with version as (
  insert into penstock.versions (id, tenant, document_id, number, blob_id, job_id, metadata, uploaded_by)
  select :version, document.tenant, document.id, newest.number + 1, :blob, :job, :metadata::jsonb, :uploaded_by
  from penstock.documents as document join penstock.versions as newest on newest.id = document.version_id
  where document.id = :document
  returning number
),
unseen as (  -- a version that never became live will not any more
  update penstock.versions set dead_at = penstock.now()
  where id = (select version_id from penstock.documents where id = :document and live_id is distinct from version_id)
),
document as (
  update penstock.documents
  set state = 'queued', error = null, version_id = :version, job_id = :job, changed_at = penstock.now(),
    -- A live version keeps its metadata until the new one replaces it; without one, the new metadata hold at once.
    metadata = case when live_id is null then :metadata::jsonb else metadata end,
    uploaded_by = case when live_id is null then :uploaded_by else uploaded_by end
  where id = :document
  returning tenant, collection_id, id
),
told as (
  insert into penstock.events (tenant, collection_id, document_id, event, details)
  select tenant, collection_id, id, 'replaced', jsonb_build_object('version', number, 'by', :uploaded_by::text)
  from document cross join version
)
select number, pg_notify('penstock_changed', '') from version

-- name: packet_of
-- The packet that a document is a part of, if it is.
select packet.document_id as id
from penstock.packet_documents as sourced join penstock.packets as packet on packet.version_id = sourced.version_id
join penstock.documents as member on member.version_id = sourced.member_version
where member.id = :document
limit 1
