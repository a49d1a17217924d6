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

-- name: load_pending
select document_id as document, version_id as version, head_id as head, model, next_model, model_turn, found, ending
from penstock.unpublished where head_id = :head order by place

-- name: wants_points
select 'qdrant' in (index, coalesce(next_index, index)) from penstock.collections where id = :collection

-- name: forget_findings
delete from penstock.unpublished where head_id = :head

-- name: load_work
select document.id as document, version.id as version, version.number, document.tenant, document.collection_id as collection,
  collection.name as collection_name, document.name, document.parent_id as parent, document.depth, blob.key as blob_key, blob.digest,
  blob.size, coalesce(version.metadata, document.metadata) as metadata, document.live_id as live, collection.model, collection.next_model, collection.model_turn,
  collection.chunk_size, collection.chunk_overlap, collection.ocr_language, collection.search_language,
  exists (select from penstock.hidden_versions where version_id = version.id) as begun
from penstock.documents as document
join penstock.versions as version on version.id = document.version_id
join penstock.blobs as blob on blob.id = version.blob_id
join penstock.collections as collection on collection.id = document.collection_id
where document.id = :document and document.version_id = :version and document.state <> 'deleted'

-- name: keep_pages
insert into penstock.pages (version_id, number, text, ocr)
select :version, number, text, ocr from unnest(:numbers::int[], :texts::text[], :ocrs::real[]) as page(number, text, ocr)
on conflict (version_id, number) do update set text = excluded.text, ocr = excluded.ocr

-- name: publish
-- queued -> ready. The version that was live before is dead; the counts change by the difference. `published` is null if it is not the
-- newest any more, or needs vectors in Qdrant that were not counted. One statement for all of it, because a small document pays for
-- every round trip.
with kept as (
  -- include: publication.sql keep_pages
),
held as materialized (
  select * from penstock.hold_models(:collection)
),
document as materialized (
  select document.id, document.tenant, document.collection_id, document.job_id, document.live_id, live.chunks, live.words
  from penstock.documents as document left join penstock.versions as live on live.id = document.live_id
  where document.id = :document and document.version_id = :version and document.state <> 'deleted'
    and (:counted::boolean or not (select wants_points from held))
  for no key update of document
),
version as (
  update penstock.versions
  set prepared_at = penstock.now(), title = nullif(:title, ''), pages = :pages, chunks = :chunks, words = :words,
    gaps = :gaps::jsonb, facts = :facts::jsonb
  where id = :version and exists (select from document)
  returning id, number, accepted_at, metadata, uploaded_by
),
live as (
  update penstock.documents as document
  set state = 'ready', live_id = :version, error = null, media_type = :media_type, changed_at = penstock.now(),
    metadata = coalesce(version.metadata, document.metadata), uploaded_by = coalesce(version.uploaded_by, document.uploaded_by)
  from version
  where document.id = :document
),
dead as (
  update penstock.versions set dead_at = penstock.now()
  where id = (select live_id from document) and id <> :version
),
tallied as (
  insert into penstock.tallies (collection_id, documents, chunks, words)
  select collection_id, case when live_id is null then 1 else 0 end, :chunks::bigint - coalesce(chunks, 0),
    :words::bigint - coalesce(words, 0)
  from document
),
told as (
  insert into penstock.events (tenant, collection_id, document_id, event, details)
  select document.tenant, document.collection_id, document.id, 'ready', jsonb_build_object(
    'version', version.number, 'pages', :pages::int, 'chunks', :chunks::bigint, 'gaps', jsonb_array_length(:gaps::jsonb),
    'attempts', job.attempt,
    'waited', round(extract(epoch from coalesce(job.attempts[1].started_at, job.claimed_at) - version.accepted_at), 3),
    'seconds', round(extract(epoch from penstock.now() - version.accepted_at), 3)
  )
  from document cross join version left join penstock.jobs as job on job.id = document.job_id
  returning document_id
)
select held.*, (select document_id from told) as published,
  (select extract(epoch from penstock.now() - accepted_at)::float8 from version) as seconds
from held
