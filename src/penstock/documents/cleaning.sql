-- name: list_dead_versions
-- A job that was told to end may still be at work, and stage rows: its version is cleared after its end. Those of deleted
-- documents are removed as a whole, when nobody can restore them any more (removal.sql).
select version.id as version, version.document_id as document, document.collection_id as collection, collection.model
from penstock.versions as version
join penstock.documents as document on document.id = version.document_id
join penstock.collections as collection on collection.id = document.collection_id
where version.id > :after and version.dead_at is not null and version.cleared_at is null
  and version.id is distinct from document.live_id and document.state <> 'deleted'
  and not exists (select from penstock.jobs where jobs.id = version.job_id)
order by version.id limit :most

-- name: clear_pages
with bite as (
  select version_id, number from penstock.pages where version_id = :version order by number limit :bite
)
delete from penstock.pages using bite
where pages.version_id = bite.version_id and pages.number = bite.number
returning pages.number

-- name: clear_answers
-- What a language model has said about it.
with bite as (
  delete from penstock.extraction_windows
  where ctid = any (array(select ctid from penstock.extraction_windows where version_id = :version limit :bite::int))
  returning 1
)
select count(*)::int from bite

-- name: note_cleared
with unpublished as (
  delete from penstock.unpublished where version_id = :version
)
update penstock.versions set cleared_at = penstock.now() where id = :version

-- name: compact_tallies
-- Who reads at the same time sees the old rows or the new one, never both. A row for each collection stays as it is.
with old as (
  delete from penstock.tallies
  where ctid = any (array(
    select ctid from penstock.tallies
    where collection_id in (select collection_id from penstock.tallies group by collection_id having count(*) > 1)
    limit :bite for update skip locked
  ))
  returning collection_id, documents, chunks, words, deleted
),
summed as (
  insert into penstock.tallies (collection_id, documents, chunks, words, deleted)
  select collection_id, sum(documents), sum(chunks), sum(words), sum(deleted) from old group by collection_id
)
select count(*)::int from old
