-- name: jobs_of
select job_id from penstock.documents where id = any (:ids::bigint[]) and state <> 'deleted' and job_id is not null

-- name: lock_documents
select id, job_id from penstock.documents
where id = any (:ids::bigint[]) and state <> 'deleted'
order by id for update

-- name: delete_documents
-- any state -> deleted. Search does not see it from the commit on; the counts and the story follow.
with gone as (
  select document.id, document.tenant, document.collection_id, live.id as live_id, live.chunks, live.words
  from penstock.documents as document left join penstock.versions as live on live.id = document.live_id
  where document.id = any (:ids::bigint[])
),
deleted as (
  update penstock.documents
  set state = 'deleted', live_id = null, error = null, deleted_at = penstock.now(), changed_at = penstock.now()
  where id = any (:ids::bigint[])
  returning id
),
dead as (
  update penstock.versions set dead_at = penstock.now() where document_id = any (:ids::bigint[]) and dead_at is null
),
tallied as (
  insert into penstock.tallies (collection_id, documents, chunks, words, deleted)
  select collection_id, -count(live_id), -coalesce(sum(chunks), 0), -coalesce(sum(words), 0), count(*)
  from gone group by collection_id
),
told as (
  insert into penstock.events (tenant, collection_id, document_id, event, details)
  select tenant, collection_id, id, 'deleted', jsonb_build_object('reason', :reason::text) from gone
)
select id, pg_notify('penstock_changed', '') from deleted

-- name: members_of
select id from penstock.documents where parent_id = any (:parents::bigint[]) and state <> 'deleted' order by id limit :most
