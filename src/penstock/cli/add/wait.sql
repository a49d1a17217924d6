-- name: settled
-- Those of the given documents that are ready, failed or deleted.
select document.id, document.name, document.state, document.error ->> 'message' as error,
  coalesce(jsonb_array_length(version.gaps), 0) as gaps
from penstock.documents as document
left join penstock.versions as version on version.id = document.live_id
where document.id = any (:ids::bigint[]) and document.state <> 'queued'

-- name: members_of
-- Attachments and members, which are documents since the commit that made their parent ready.
select id, name, parent_id from penstock.documents where parent_id = any (:ids::bigint[]) and state <> 'deleted'

-- name: steps_of
-- What is done for the given documents at this moment.
select coalesce(job.progress ->> 'step', 'progress') as step, count(*) as count
from penstock.jobs as job
where job.state in ('running', 'waiting')
  and job.id in (select job_id from penstock.documents where id = any (:ids::bigint[]))
group by 1 order by 1

-- name: others_waiting
select count(*) from (
  select from penstock.documents where state = 'queued' and not id = any (:ids::bigint[]) limit 10001
) as other
