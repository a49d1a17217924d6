-- The one place that says which of the five states a document is in.

-- name: status
-- `processing` is not stored: it is a queued document whose job has been claimed, and not ended since; or which is prepared, and
-- whose points are not there yet.
case when document.state = 'queued' and (
  job.attempt > 0 or exists (
    select from penstock.unpublished as prepared
    where prepared.version_id = document.version_id and prepared.job_id = document.job_id
  )
) then 'processing' else document.state end
