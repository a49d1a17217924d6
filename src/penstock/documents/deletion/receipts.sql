-- name: unverified
-- Without those whose vectors in Qdrant are not counted to be gone yet.
select document_id, collection_id, version_ids, job_ids, keys, removed from penstock.receipts
where verified_at is null and document_id > :after
  and not exists (select from penstock.leaving_points where version_id = any (receipts.version_ids))
order by document_id limit :most

-- name: forget_blobs
-- deleting -> (gone), after the file. A row that is kept has another key.
delete from penstock.blobs where key = any (:keys::text[]) and state = 'deleting'

-- name: count_beside
-- What is left outside of the index and the files.
select asked.document_id as document,
  (select count(*) from penstock.versions where document_id = asked.document_id)::int as versions,
  (select count(*) from penstock.pages where version_id = any (receipt.version_ids))::int as pages,
  (select count(*) from penstock.checkpoints where own and job_id = any (receipt.job_ids))::int as checkpoints,
  (select count(*) from penstock.job_history where args ->> 'version' = any (receipt.version_ids::text[])
    and fanout is not null and result is not null)::int as results,
  (select count(*) from penstock.facts where version_id = any (receipt.version_ids))::int as facts,
  (select count(*) from penstock.extractions where version_id = any (receipt.version_ids))::int
    + (select count(*) from penstock.extraction_windows where version_id = any (receipt.version_ids))::int as answers,
  (select count(*) from penstock.blobs where key = any (receipt.keys))::int as blobs,
  (select count(*) from penstock.leaving_points where version_id = any (receipt.version_ids))::int as points
from unnest(:documents::bigint[]) as asked(document_id)
join penstock.receipts as receipt on receipt.document_id = asked.document_id

-- name: clear_pages
delete from penstock.pages where version_id = any (:versions::bigint[])

-- name: clear_facts
with answers as (
  delete from penstock.extraction_windows where version_id = any (:versions::bigint[])
)
delete from penstock.extractions where version_id = any (:versions::bigint[])

-- name: remove_steps
-- What jobs have kept of the document: steps, and the results of the parts of a long scan. The job and its outcome stay
-- for as long as the history; its messages may quote the document.
with steps as (
  delete from penstock.checkpoints where own and job_id = any (:jobs::bigint[])
),
parts as (
  update penstock.job_history set result = null, error = null, attempts = '{}'
  where args ->> 'version' = any (:versions::text[]) and fanout is not null and result is not null
)
update penstock.job_history
set attempts = '{}',
  error = case when error is not null then '{"class": "Removed", "message": "removed with its document"}'::json end
where id = any (:jobs::bigint[]) and (error is not null or attempts <> '{}')

-- name: note_verified
update penstock.receipts as receipt
set verified_at = penstock.now(), verified = seen.verified, removed = receipt.removed || seen.again
from unnest(:documents::bigint[], :verified::jsonb[], :again::jsonb[]) as seen(document_id, verified, again)
where receipt.document_id = seen.document_id and receipt.verified_at is null

-- name: receipt
select document_id as document, collection, name, parent_id as parent, contents, deleted_by, reason, deleted_at, removed_at, removed,
  verified_at, verified
from penstock.receipts

-- name: show_receipt
-- include: receipts.sql receipt
where document_id = :document and tenant = :tenant

-- name: list_receipts
-- include: receipts.sql receipt
where tenant = :tenant and document_id > :after order by document_id limit :most
