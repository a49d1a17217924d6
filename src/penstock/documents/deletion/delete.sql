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
-- any state -> deleted. Search does not see it from the commit on; the counts and the history follow. Its previous state is kept
-- with the order to remove it. The caller has locked the rows, and found them not deleted. A document is due with the deleted
-- parent or collection that it belongs to, which may be removed already.
with gone as (
  select document.id, document.tenant, document.collection_id, document.state, live.id as live_id, live.chunks, live.words,
    greatest(penstock.now(), least(
      penstock.now() + :grace::interval,
      case when collection.deleted_at is not null then coalesce(collection.restorable_until, '-infinity') end,
      case when parent.state = 'deleted' then coalesce(removal.due_at, '-infinity') end
    )) as due_at
  from penstock.documents as document
  join penstock.collections as collection on collection.id = document.collection_id
  left join penstock.versions as live on live.id = document.live_id
  left join penstock.documents as parent on parent.id = document.parent_id
  left join penstock.removals as removal on removal.document_id = parent.id
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
  select id, tenant, collection_id, state, live_id, :by::text, :reason::text, penstock.now(), due_at from gone
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

-- name: end_restore_window
-- A restore locks the same rows.
with recursive family as (
  select unnest(:documents::bigint[]) as id
  union
  select member.id from family join penstock.documents as member on member.parent_id = family.id
),
held as (
  select removal.document_id from penstock.removals as removal
  where removal.document_id in (select id from family) and removal.due_at > penstock.now()
  order by removal.document_id for update
)
update penstock.removals as removal set due_at = penstock.now()
from held where removal.document_id = held.document_id
returning removal.document_id

-- name: restorable_until
select penstock.now() + :grace::interval

-- name: members_of
select id from penstock.documents where parent_id = any (:parents::bigint[]) and state <> 'deleted' order by id limit :most

-- name: find_collection
select id from penstock.collections where tenant = :tenant and name = :name and deleted_at is null

-- name: find_matching
-- Documents that meet all conditions, in the order of their ids.
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
    -- include: ../fragments.sql status
  )
order by document.id limit :most

-- name: fate
-- The fate of a deleted document, and whether it can be restored.
select document.name, document.state, collection.name as collection, collection.deleted_at is not null as collection_gone,
  parent.id as parent, parent.state = 'deleted' as parent_gone, removal.due_at, removal.due_at <= penstock.now() as too_late,
  receipt.removed_at
from penstock.documents as document
join penstock.collections as collection on collection.id = document.collection_id
left join penstock.documents as parent on parent.id = document.parent_id
left join penstock.removals as removal on removal.document_id = document.id
left join penstock.receipts as receipt on receipt.document_id = document.id
where document.id = :document and document.tenant = :tenant

-- name: hold_families
-- The documents, and what was deleted with them or after them; a member that was deleted before its parent stays deleted.
with recursive family as (
  select removal.document_id, removal.deleted_at from penstock.removals as removal
  where removal.document_id = any (:documents::bigint[]) and removal.tenant = :tenant
  union
  select member.document_id, member.deleted_at
  from family
  join penstock.documents as document on document.parent_id = family.document_id
  join penstock.removals as member on member.document_id = document.id and member.deleted_at >= family.deleted_at
)
select removal.document_id, removal.state, removal.live_id, document.version_id, collection.name as collection,
  document.collection_id, document.parent_id,
  exists (select from penstock.packets where packets.version_id = document.version_id) as packet,
  removal.due_at <= penstock.now() as too_late,
  exists (
    select from penstock.versions as version join penstock.jobs as job on job.id = version.job_id
    where version.document_id = document.id
  ) as busy
from penstock.removals as removal
join penstock.documents as document on document.id = removal.document_id
join penstock.collections as collection on collection.id = document.collection_id
where removal.document_id in (select document_id from family) and collection.deleted_at is null
order by removal.document_id for update of removal

-- name: name_taken
select other.id, other.name
from penstock.documents as gone
join penstock.documents as other
  on other.tenant = gone.tenant and other.collection_id = gone.collection_id and other.name = gone.name and other.state <> 'deleted'
where gone.id = any (:documents::bigint[])
order by other.id limit 1

-- name: restore_documents
-- deleted -> ready, or queued with a new job. What was live is live again, and the counts follow.
with
  back as materialized (
    select removal.document_id, removal.tenant, removal.collection_id, removal.state, live.id as live_id, document.version_id,
      job.id as job_id, live.chunks, live.words
    from penstock.removals as removal
    join penstock.documents as document on document.id = removal.document_id
    left join unnest(:queued::bigint[], :jobs::bigint[]) as job(document_id, id) on job.document_id = removal.document_id
    left join penstock.versions as live on live.id = removal.live_id and live.id = any (:complete::bigint[])
    where removal.document_id = any (:documents::bigint[])
  ),
  document as (
    update penstock.documents as document
    set state = case when back.job_id is null then 'ready' else 'queued' end, live_id = back.live_id, deleted_at = null,
      job_id = coalesce(back.job_id, document.job_id), changed_at = penstock.now()
    from back where document.id = back.document_id
    returning document.id
  ),
  version as (
    update penstock.versions as version set dead_at = null, job_id = case
      when version.id = back.version_id then coalesce(back.job_id, version.job_id) else version.job_id
    end
    from back
    where version.document_id = back.document_id and (version.id = back.live_id or version.id = back.version_id)
  ),
  tallied as (
    insert into penstock.tallies (collection_id, documents, chunks, words, deleted)
    select collection_id, count(live_id), coalesce(sum(chunks), 0), coalesce(sum(words), 0), -count(*)
    from back group by collection_id
  ),
  told as (
    insert into penstock.events (tenant, collection_id, document_id, event, details)
    select tenant, collection_id, document_id, 'restored', jsonb_strip_nulls(jsonb_build_object('job', job_id)) from back
  ),
  kept as (
    delete from penstock.removals where document_id in (select document_id from back)
  )
select id, pg_notify('penstock_changed', '') from document
