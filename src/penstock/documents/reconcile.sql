-- name: fail_abandoned
-- queued -> failed, for those whose job is over. The lock makes a retry that is under way wait, or us look again after it.
with abandoned as materialized (
  select document.id from penstock.documents as document
  where document.state = 'queued' and not exists (select from penstock.jobs where jobs.id = document.job_id)
  order by document.id limit :bite for update skip locked
),
failed as (
  update penstock.documents as document
  set state = 'failed', changed_at = penstock.now(),
    error = '{"class": "Abandoned", "message": "its job ended without a result: retry it"}'
  where id = any (array(select id from abandoned))
  returning tenant, collection_id, id, error
),
told as (
  insert into penstock.events (tenant, collection_id, document_id, event, details)
  select tenant, collection_id, id, 'failed', error from failed
)
select id from failed

-- name: orphans
select member.id from penstock.documents as member
join penstock.documents as parent on parent.id = member.parent_id
where parent.state = 'deleted' and member.state <> 'deleted'
union
select document.id from penstock.documents as document
join penstock.collections as collection on collection.id = document.collection_id
where collection.deleted_at is not null and document.state <> 'deleted'
limit :bite
