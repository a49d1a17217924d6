-- The one place that says which of the five states a document is in.

-- name: status
-- `processing` is not stored: it is a queued document whose job has been claimed, and not ended since.
case when document.state = 'queued' and job.attempt > 0 then 'processing' else document.state end
