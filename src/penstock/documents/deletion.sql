-- name: jobs_of
-- Not that of a packet which goes on without this document.
select document.job_id from penstock.documents as document
where document.id = any (:ids::bigint[]) and document.state <> 'deleted' and document.job_id is not null
  and not exists (
    select from penstock.documents as parent
    where parent.id = document.parent_id and parent.job_id = document.job_id and parent.state <> 'deleted'
      and parent.id <> all (:ids::bigint[])
  )

-- name: lock_documents
select document.id, document.job_id,
  exists (
    select from penstock.documents as parent where parent.id = document.parent_id and parent.job_id = document.job_id
  ) as shared
from penstock.documents as document
where document.id = any (:ids::bigint[]) and document.state <> 'deleted'
order by document.id for update

-- name: delete_documents
-- any state -> deleted. Search does not see it from the commit on; the counts and the story follow. What it was is kept with
-- the order to remove it. The caller has locked the rows, and found them not deleted.
with gone as (
  select document.id, document.tenant, document.collection_id, document.state, live.id as live_id, live.chunks, live.words
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
doomed as (
  insert into penstock.removals
    (document_id, tenant, collection_id, state, live_id, deleted_by, reason, deleted_at, due_at)
  select id, tenant, collection_id, state, live_id, :by::text, :reason::text, penstock.now(),
    penstock.now() + :grace::interval
  from gone
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

-- name: lane_of
-- Of the job that removes.
select id from penstock.lanes where queue = :queue and kind = :kind and share = '_system'

-- name: add_lane
insert into penstock.lanes (queue, kind, share) values (:queue, :kind, '_system')
on conflict (queue, kind, share) do update set share = excluded.share
returning id

-- name: find_collection
select id from penstock.collections where tenant = :tenant and name = :name and deleted_at is null

-- name: find_matching
-- Documents by what is known of them, in the order of their numbers.
select document.id
from penstock.documents as document
left join penstock.jobs as job on job.id = document.job_id
where document.tenant = :tenant and document.collection_id = :collection and document.state <> 'deleted' and document.id > :after
  and (:metadata::jsonb is null or document.metadata @> :metadata::jsonb)
  and (:media_types::text[] is null or document.media_type = any (:media_types::text[]))
  and (:since::timestamptz is null or document.created_at >= :since::timestamptz)
  and (:until::timestamptz is null or document.created_at < :until::timestamptz)
  and (:pattern::text is null or document.name like :pattern::text)
  and (:status::text is null or :status::text =
    -- include: status.sql status
  )
order by document.id limit :most
