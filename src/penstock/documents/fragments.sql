-- Fragments that several statements share.

-- name: collection_facts
collection.id, collection.tenant, collection.name, collection.model, collection.chunk_size, collection.chunk_overlap,
collection.ocr_language, collection.search_language, collection.created_at, collection.index

-- name: collection_tally
cross join lateral (
  select coalesce(sum(documents), 0)::bigint as documents, coalesce(sum(chunks), 0)::bigint as chunks
  from penstock.tallies where tallies.collection_id = collection.id
) as tally

-- name: document
select
  document.id, document.tenant, document.collection_id, collection.name as collection, document.name,
  -- include: fragments.sql status
  as status,
  document.parent_id as parent, document.depth, document.uploaded_by, document.metadata, document.media_type,
  document.error, document.created_at, document.changed_at, document.deleted_at, document.dismissed_at,
  case when document.state = 'deleted' then (
    select removal.due_at from penstock.removals as removal
    where removal.document_id = document.id and removal.due_at > penstock.now()
  ) end as restorable_until,
  document.job_id as job, document.version_id, document.live_id,
  job.progress, job.attempt,
  coalesce(newest.number, jsonb_array_length(receipt.contents), 0) as version,
  coalesce(newest.accepted_at, document.created_at) as accepted_at, live.number as live_version, live.prepared_at, live.title, live.pages,
  live.chunks, live.words, coalesce(live.gaps, '[]') as gaps, coalesce(live.facts, '{}') as facts,
  coalesce(blob.size, (receipt.contents -> -1 ->> 'size')::bigint, 0) as size,
  coalesce(blob.digest, decode(receipt.contents -> -1 ->> 'digest', 'hex'), '') as digest, coalesce(blob.key, '') as key
from penstock.documents as document
join penstock.collections as collection on collection.id = document.collection_id
-- Of a document that was removed, the receipt knows what its newest version was.
left join penstock.versions as newest on newest.id = document.version_id
left join penstock.blobs as blob on blob.id = newest.blob_id
left join penstock.receipts as receipt on receipt.document_id = document.id and document.state = 'deleted'
left join penstock.versions as live on live.id = document.live_id
left join penstock.jobs as job on job.id = document.job_id

-- name: status
-- `processing` is not stored: it is a queued document whose job has been claimed, and not ended since; or which is prepared, and
-- whose points are not there yet.
case when document.state = 'queued' and (
  job.attempt > 0 or exists (
    select from penstock.unpublished as prepared
    where prepared.version_id = document.version_id and prepared.job_id = document.job_id
  )
) then 'processing' else document.state end

-- name: becoming
collection.next_model, collection.next_job, collection.next_index, collection.index_job, job.state::text as job_state, job.progress as job_progress, job.error as job_error
