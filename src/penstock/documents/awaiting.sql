-- name: keep_findings
-- Again, when the version is prepared again. No row: it is not the newest any more, or deleted.
with document as (
  select id, tenant, version_id from penstock.documents
  where id = :document and version_id = :version and state <> 'deleted'
  for no key update
)
insert into penstock.unpublished as kept
  (version_id, tenant, document_id, head_id, place, model, next_model, model_turn, found)
select version_id, tenant, id, :head,
  (select count(*) from penstock.unpublished where head_id = :head and version_id <> :version),
  :model, :next_model, :turn, :found::jsonb
from document
on conflict (version_id) do update
  set head_id = excluded.head_id, place = excluded.place, model = excluded.model, next_model = excluded.next_model,
    model_turn = excluded.model_turn, found = excluded.found, ending = '{}', job_id = null, prepared_at = penstock.now()
returning version_id

-- name: follow_job
-- Documents and versions that were prepared together get the next job together.
with moved as (
  update penstock.unpublished set job_id = :job where head_id = :head returning version_id, document_id
),
document as (
  update penstock.documents as document set job_id = :job, changed_at = penstock.now()
  from (
    select own.id, own.job_id as before from penstock.documents as own join moved on moved.document_id = own.id
    where own.version_id = moved.version_id and own.state <> 'deleted'
  ) as own
  where document.id = own.id
  returning document.id, document.tenant, document.collection_id, own.before
),
version as (
  update penstock.versions set job_id = :job where id in (select version_id from moved)
)
insert into penstock.events (tenant, collection_id, document_id, event, details)
select tenant, collection_id, id, 'prepared', jsonb_build_object('job', :job::bigint, 'before', before) from document
returning pg_notify('penstock_changed', '')

-- name: keep_ending
update penstock.unpublished set ending = :ending::jsonb where version_id = :head

-- name: load_unpublished
select document_id as document, version_id as version, head_id as head, model, next_model, model_turn, found, ending
from penstock.unpublished where head_id = :head order by place

-- name: wants_points
select 'qdrant' in (index, coalesce(next_index, index)) from penstock.collections where id = :collection

-- name: forget_findings
delete from penstock.unpublished where head_id = :head
