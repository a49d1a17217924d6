-- name: waiting
-- A page of those that wait, and those of them whose job is over.
with page as materialized (
  select id, job_id from penstock.documents where state = 'queued' and id > :after order by id limit :batch
)
select max(id) as last,
  array_agg(id) filter (where not exists (select from penstock.jobs where jobs.id = page.job_id)) as abandoned
from page

-- name: lock_waiting
select id from penstock.documents
where id = any (:ids::bigint[]) and state = 'queued' order by id for update skip locked

-- name: fail_abandoned
-- queued -> failed, for those whose job is over, while the lock keeps them from getting another one.
with failed as (
  update penstock.documents as document
  set state = 'failed', changed_at = penstock.now(),
    error = '{"class": "Abandoned", "message": "its job ended without a result: retry it"}'
  where id = any (:ids::bigint[]) and state = 'queued'
    and not exists (select from penstock.jobs where jobs.id = document.job_id)
  returning tenant, collection_id, id, name, error
),
told as (
  insert into penstock.events (tenant, collection_id, document_id, event, details)
  select tenant, collection_id, id, 'failed', error from failed
)
select id, tenant, name from failed

-- name: orphans
-- Members of what was deleted in the last minutes (older ones: documents/integrity/deleted.py), and documents of deleted collections: the
-- index of names has only those that are not deleted, so that long deleted ones are not read again. Late are those for
-- which no deletion is under way any more.
(
  select member.id, member.tenant, member.name, false as late
  from penstock.documents as parent
  cross join lateral (
    select id, tenant, name from penstock.documents
    where parent_id = parent.id and state <> 'deleted' order by id limit :batch
  ) as member
  where parent.deleted_at > penstock.now() - interval '15 minutes'
  limit :batch
)
union
(
  select document.id, document.tenant, document.name, collection.deleted_at < penstock.now() - interval '15 minutes'
  from penstock.collections as collection
  cross join lateral (
    select id, tenant, name from penstock.documents
    where documents.tenant = collection.tenant and documents.collection_id = collection.id and documents.state <> 'deleted'
    order by documents.name limit :batch
  ) as document
  where collection.deleted_at is not null
  limit :batch
)
limit :batch
