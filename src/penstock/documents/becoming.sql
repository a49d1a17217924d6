-- A fragment: how far a collection is on its way to another model or another index. Needs its job beside it.

-- name: becoming
collection.next_model, collection.next_job, collection.next_index, collection.index_job, job.state::text as job_state, job.progress as job_progress, job.error as job_error
