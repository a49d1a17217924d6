-- name: is_queued
-- Whether a document waits for a worker.
select exists (
  select from penstock.documents as document
  join penstock.jobs as job on job.id = document.job_id
  where document.id = :document and job.state = 'ready'
)
