-- name: oldest_queued
-- The document that has waited longest for its first claim.
select document.id, document.name, penstock.now() - job.enqueued_at as age
from penstock.documents as document
join penstock.collections as collection on collection.id = document.collection_id
join penstock.jobs as job on job.id = document.job_id
where document.state = 'queued' and job.state = 'ready' and job.attempt = 0
  and document.tenant = :tenant and (:collection::text is null or collection.name = :collection)
order by job.enqueued_at, job.id limit 1

-- name: failed_by_cause
-- Of each cause the newest as the example.
select coalesce(document.error ->> 'type', document.error ->> 'class', 'unknown') as cause, count(*) as count,
  (array_agg(document.id order by document.id desc))[1] as id,
  (array_agg(document.name order by document.id desc))[1] as name,
  (array_agg(document.error ->> 'message' order by document.id desc))[1] as message
from penstock.documents as document
join penstock.collections as collection on collection.id = document.collection_id
where document.state = 'failed' and document.tenant = :tenant
  and (:collection::text is null or collection.name = :collection)
group by 1 order by count(*) desc, 1 limit :most
