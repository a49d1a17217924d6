-- name: order_qdrant_removals
insert into penstock.leaving_points (version_id, collection_id)
select version, :collection from unnest(:versions::bigint[]) as gone(version)
where exists (select from penstock.collections where id = :collection and has_points)
on conflict do nothing
returning version_id

-- name: list_qdrant_removals
with first as (
  select collection.model from penstock.leaving_points as leaving
  join penstock.collections as collection on collection.id = leaving.collection_id
  order by leaving.version_id limit 1
)
select leaving.version_id as version, collection.model
from penstock.leaving_points as leaving join penstock.collections as collection on collection.id = leaving.collection_id
where collection.model = (select model from first)
order by leaving.version_id limit :most

-- name: forget_qdrant_removals
delete from penstock.leaving_points where version_id = any (:versions::bigint[])

-- name: has_qdrant_removals
select exists (select from penstock.leaving_points)

-- name: list_dead_versions
-- A job that was told to end may still be at work, and stage rows: its version is cleared after its end. Those of deleted
-- documents are removed as a whole, when they cannot be restored any more.
select version.id as version, version.document_id as document, document.collection_id as collection, collection.model
from penstock.versions as version
join penstock.documents as document on document.id = version.document_id
join penstock.collections as collection on collection.id = document.collection_id
where version.id > :after and version.dead_at is not null and version.cleared_at is null
  and version.id is distinct from document.live_id and document.state <> 'deleted'
  and not exists (select from penstock.jobs where jobs.id = version.job_id)
order by version.id limit :most

-- name: clear_pages
with batch as (
  select version_id, number from penstock.pages where version_id = :version order by number limit :batch
)
delete from penstock.pages using batch
where pages.version_id = batch.version_id and pages.number = batch.number
returning pages.number

-- name: clear_answers
-- Answers of a language model about it.
with batch as (
  delete from penstock.extraction_windows
  where ctid = any (array(select ctid from penstock.extraction_windows where version_id = :version limit :batch::int))
  returning 1
)
select count(*)::int from batch

-- name: note_cleared
with unpublished as (
  delete from penstock.unpublished where version_id = :version
)
update penstock.versions set cleared_at = penstock.now() where id = :version

-- name: compact_tallies
-- A concurrent reader sees the old rows or the new one, never both. A row for each collection stays as it is.
with old as (
  delete from penstock.tallies
  where ctid = any (array(
    select ctid from penstock.tallies
    where collection_id in (select collection_id from penstock.tallies group by collection_id having count(*) > 1)
    limit :batch for update skip locked
  ))
  returning collection_id, documents, chunks, words, deleted
),
summed as (
  insert into penstock.tallies (collection_id, documents, chunks, words, deleted)
  select collection_id, sum(documents), sum(chunks), sum(words), sum(deleted) from old group by collection_id
)
select count(*)::int from old

-- name: next_removals
-- The oldest that are due, of one collection, until they have this many chunks. A job that was told to end may still be at work,
-- and stage rows; so may the parts of a long scan: a document is removed after their end.
with due as materialized (
  select removal.document_id, removal.collection_id, removal.due_at
  from penstock.removals as removal
  where removal.due_at <= penstock.now()
    and not exists (
      select from penstock.versions as version join penstock.jobs as job on job.id = version.job_id
      where version.document_id = removal.document_id
    )
    and not exists (
      select from penstock.versions as version
      join penstock.fanouts as fanout on fanout.parent = version.job_id
      join penstock.jobs as part on part.fanout = fanout.id
      where version.document_id = removal.document_id
    )
  order by removal.due_at, removal.document_id limit :most
),
sized as (
  select due.document_id, due.collection_id, row_number() over turn as place,
    sum(coalesce((
      select sum(chunks) from penstock.versions where versions.document_id = due.document_id and cleared_at is null
    ), 0)) over turn as chunks
  from due
  where due.collection_id = (select collection_id from due order by due_at, document_id limit 1)
  window turn as (order by due.due_at, due.document_id)
)
select document_id, collection_id from sized where chunks <= :chunks or place = 1

-- name: is_anything_due
-- A receipt waits until its vectors in Qdrant are gone.
select exists (select from penstock.removals where due_at <= penstock.now())
  or exists (
    select from penstock.receipts as receipt where receipt.verified_at is null
      and not exists (select from penstock.leaving_points where version_id = any (receipt.version_ids))
  )

-- name: is_searched
-- Whether search sees something of a collection, or something of it can be restored.
select coalesce((select sum(documents) from penstock.tallies where collection_id = :collection), 0) > 0
  or exists (select from penstock.removals where collection_id = :collection and due_at > penstock.now())

-- name: versions_of
select version.id, version.document_id, array_remove(array_agg(distinct job.id), null) as jobs
from penstock.versions as version
-- A retry gives a version another job, and so does the wait for vectors in Qdrant; events name those jobs.
left join lateral (
  select version.job_id as id
  union
  select number::bigint from penstock.events as event
  cross join lateral (values (event.details ->> 'job'), (event.details ->> 'before')) as told(number)
  where event.document_id = version.document_id and event.event in ('retried', 'prepared')
) as job on true
where version.document_id = any (:documents::bigint[])
group by version.id, version.document_id

-- name: hold
-- The fence of every batch: it is due, and was not removed concurrently. A restore locks the same row.
select document_id from penstock.removals
where document_id = any (:documents::bigint[]) and due_at <= penstock.now()
order by document_id for update

-- name: count_kept
-- Rows of each version outside of the index.
select version.id as version,
  (select count(*) from penstock.pages where version_id = version.id)::int as pages,
  (select count(*) from penstock.checkpoints where own and job_id = any (:jobs::bigint[]) and job_id = version.job_id)::int
    as checkpoints,
  (select count(*) from penstock.facts where version_id = version.id)::int as facts
from penstock.versions as version where version.id = any (:versions::bigint[])

-- name: note_begun
-- Once: a run that goes on after a crash finds less, and keeps the first counts.
update penstock.removals as removal set removed = counted.removed
from unnest(:documents::bigint[], :counts::jsonb[]) as counted(document_id, removed)
where removal.document_id = counted.document_id and removal.removed is null

-- name: remove_pages
with removed as (
  delete from penstock.pages
  where ctid = any (array(
    select ctid from penstock.pages where version_id = any (:versions::bigint[]) limit :most::int
  ))
  returning 1
)
select count(*)::int from removed

-- name: hold_entities
-- Before facts go: a transaction that adds mentions of the same entities waits, or has committed.
select penstock.hold_entities(:collection)

-- name: remove_facts
-- With their vectors and mentions; an entity goes with its last mention.
with removed as (
  delete from penstock.facts
  where id = any (array(select id from penstock.facts where version_id = any (:versions::bigint[]) limit :most::int))
  returning 1
)
select count(*)::int from removed

-- name: remove_answers
-- Answers of a language model about parts of them.
with removed as (
  delete from penstock.extraction_windows
  where ctid = any (array(
    select ctid from penstock.extraction_windows where version_id = any (:versions::bigint[]) limit :most::int
  ))
  returning 1
)
select count(*)::int from removed

-- name: lock_blobs
-- In the order of keep_blobs. A concurrent intake of the same content has the row's lock until its commit, and then a version that
-- the next statement sees; a later one waits for this transaction, finds the row given up, and keeps its own bytes. So no grace is
-- needed: the collector's is for rows that it reads without a lock.
select blob.id from penstock.blobs as blob
where blob.id in (select blob_id from penstock.versions where document_id = any (:documents::bigint[]))
order by blob.digest for update

-- name: write_receipts
-- The last rows go, and what is left of each document is a name, an id, and the receipt.
with
  gone as materialized (
    select removal.document_id, removal.tenant, removal.collection_id, removal.deleted_by, removal.reason, removal.deleted_at,
      removal.removed, document.name, document.parent_id, collection.name as collection
    from penstock.removals as removal
    join penstock.documents as document on document.id = removal.document_id
    join penstock.collections as collection on collection.id = removal.collection_id
    where removal.document_id = any (:documents::bigint[])
  ),
  version as materialized (
    select version.id, version.document_id, version.number, version.blob_id, blob.digest, blob.size, blob.key
    from penstock.versions as version join penstock.blobs as blob on blob.id = version.blob_id
    where version.document_id = any (:documents::bigint[])
  ),
  unshared as materialized (
    select distinct version.blob_id from version
    where not exists (
      select from penstock.versions as other
      where other.blob_id = version.blob_id and other.document_id <> all (:documents::bigint[])
    )
    and not exists (select from penstock.inbox_blobs where inbox_blobs.blob_id = version.blob_id)
  ),
  versions_gone as (
    delete from penstock.versions where document_id = any (:documents::bigint[])
  ),
  blobs_gone as (  -- kept -> deleting
    update penstock.blobs set state = 'deleting' where id in (select blob_id from unshared)
  ),
  tombstones as (
    update penstock.documents set metadata = '{}', uploaded_by = '', media_type = null, error = null
    where id = any (:documents::bigint[])
  ),
  history as (  -- numbers and names of steps stay; text that quotes the document, or names a person, does not
    update penstock.events set details = coalesce((
      select jsonb_object_agg(key, value) from jsonb_each(details)
      where key in ('version', 'pages', 'chunks', 'gaps', 'attempts', 'waited', 'seconds', 'class', 'step', 'parent', 'job', 'reason')
    ), '{}')
    where document_id = any (:documents::bigint[])
  ),
  messages as (  -- its id stays, so that its source does not bring it again; its content does not
    update penstock.inbox set document_id = null, payload = null, error = null where document_id = any (:documents::bigint[])
  ),
  receipts as (
    insert into penstock.receipts (document_id, tenant, collection, collection_id, name, parent_id, contents, deleted_by, reason,
      deleted_at, removed, version_ids, job_ids, keys)
    select gone.document_id, gone.tenant, gone.collection, gone.collection_id, gone.name, gone.parent_id,
      coalesce(content.contents, '[]'), gone.deleted_by, gone.reason, gone.deleted_at,
      coalesce(gone.removed, '{}') || jsonb_build_object('versions', content.versions, 'blobs', bytes.blobs, 'bytes', bytes.bytes,
        'shared', content.blobs - bytes.blobs),
      coalesce(content.ids, '{}'), coalesce(job.ids, '{}'), coalesce(bytes.keys, '{}')
    from gone
    cross join lateral (
      select count(*)::int as versions, count(distinct version.blob_id)::int as blobs, array_agg(version.id order by version.number) as ids,
        jsonb_agg(jsonb_build_object('version', number, 'digest', encode(digest, 'hex'), 'size', size) order by number) as contents
      from version where version.document_id = gone.document_id
    ) as content
    cross join lateral (
      select count(*)::int as blobs, coalesce(sum(size), 0)::bigint as bytes, array_agg(key order by key) as keys
      from (
        select distinct blob_id, key, size from version
        where version.document_id = gone.document_id and version.blob_id in (select blob_id from unshared)
      ) as own
    ) as bytes
    left join lateral (
      select array_agg(job.id) as ids
      from unnest(:owners::bigint[], :jobs::bigint[]) as job(document_id, id) where job.document_id = gone.document_id
    ) as job on true
  )
delete from penstock.removals where document_id = any (:documents::bigint[])
