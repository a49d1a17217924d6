-- name: hold_models
select * from penstock.hold_models(:collection)

-- name: lock_models
-- Waits for publications that are under way; later ones see what this transaction commits. Taken before the collection's row.
select pg_advisory_xact_lock(hashtext('penstock models'), :collection::int)

-- name: is_turn
select exists (
  select from penstock.collections
  where id = :collection and model_turn = :turn and next_model is not null and deleted_at is null
)

-- name: is_wanted
select exists (
  select from penstock.collections
  where id = :collection and deleted_at is null and (model = :model or next_model = :model)
)

-- name: has_documents
select exists (select from penstock.documents where collection_id = :collection and state <> 'deleted')

-- name: is_under_way
-- A job that is dead or cancelled makes no progress.
select exists (select from penstock.jobs where id = :job and state <> 'dead' and not cancelling)

-- name: change_at_once
-- Nothing was indexed with another model.
update penstock.collections
set model = :model, next_model = null, next_model_at = null, next_job = null, model_turn = model_turn + 1,
  model_since = model_turn + 1
where id = :collection

-- name: begin_next
update penstock.collections
set next_model = :model, next_model_at = penstock.now(), next_job = :job, model_turn = :turn
where id = :collection

-- name: cancel_next
update penstock.collections
set next_model = null, next_model_at = null, next_job = null, model_turn = model_turn + 1
where id = :collection

-- name: note_late
insert into penstock.late_versions (collection_id, version_id) values (:collection, :version) on conflict do nothing

-- name: chunks_of
select id, chunks from penstock.versions where id = any (:versions::bigint[])

-- name: list_late
select version_id from penstock.late_versions where collection_id = :collection order by version_id limit :most

-- name: forget_late
delete from penstock.late_versions where collection_id = :collection and version_id = any (:versions::bigint[])

-- name: forget_all_late
delete from penstock.late_versions where collection_id = :collection

-- name: is_anyone_late
select exists (select from penstock.late_versions where collection_id = :collection)

-- name: list_live
-- By the id of the document, which a new version does not change.
select document.id as document, version.id as version, version.chunks
from penstock.documents as document join penstock.versions as version on version.id = document.live_id
where document.collection_id = :collection and document.id > :after
order by document.id limit :most

-- name: live_among
select live_id from penstock.documents where live_id = any (:versions::bigint[])

-- name: live_chunks
select coalesce(sum(chunks), 0)::bigint from penstock.tallies where collection_id = :collection

-- name: read_spans
select chunk.version_id as version, chunk.ordinal, chunk.heading, chunk.text
from unnest(:versions::bigint[], :firsts::int[], :stops::int[]) as span(version_id, first, stop)
cross join lateral (
  select version_id, ordinal, heading, text from penstock.chunks
  where version_id = span.version_id and ordinal >= span.first and ordinal < span.stop
  order by ordinal
) as chunk

-- name: lock_becoming
-- The collection's row, if it is still its turn.
select id, model, next_model from penstock.collections
where id = :collection and model_turn = :turn and next_model is not null and deleted_at is null
for update

-- name: switch_model
-- static, becoming minilm -> minilm.
update penstock.collections
set model = next_model, next_model = null, next_model_at = null, next_job = null, model_turn = model_turn + 1,
  model_since = model_turn + 1
where id = :collection

-- name: record_model_change
select pg_notify('penstock_changed', '')

-- name: lock_collection
-- The same lock as for a change of the model: nothing is published into the collection until the commit.
select pg_advisory_xact_lock(hashtext('penstock models'), :collection::int)

-- name: has_documents_index
-- Also those that can be restored.
select exists (select from penstock.documents where collection_id = :collection and state <> 'deleted')
  or exists (select from penstock.removals where collection_id = :collection)

-- name: is_under_way_index
-- A job that is dead or cancelled makes no progress.
select exists (select from penstock.jobs where id = :job and state <> 'dead' and not cancelling)

-- name: change_at_once_index
-- There is nothing to build.
update penstock.collections
set index = :index, next_index = null, next_index_at = null, index_job = null, index_turn = index_turn + 1,
  has_points = has_points or :index = 'qdrant'
where id = :collection

-- name: begin_next_index
update penstock.collections
set next_index = :index, next_index_at = penstock.now(), index_job = :job, index_turn = :turn,
  has_points = has_points or :index = 'qdrant'
where id = :collection

-- name: cancel_next_index
update penstock.collections
set next_index = null, next_index_at = null, index_job = null, index_turn = index_turn + 1
where id = :collection

-- name: is_turn_index
select exists (
  select from penstock.collections
  where id = :collection and index_turn = :turn and next_index is not null and deleted_at is null
)

-- name: lock_becoming_index
-- The collection's row, if it is still its turn.
select id, index, next_index from penstock.collections
where id = :collection and index_turn = :turn and next_index is not null and deleted_at is null
for update

-- name: switch_index
-- postgres, becoming qdrant -> qdrant; or the other way.
update penstock.collections
set index = next_index, next_index = null, next_index_at = null, index_job = null, index_turn = index_turn + 1
where id = :collection

-- name: record_index_change
select pg_notify('penstock_changed', '')

-- name: is_searched_here
select 'postgres' in (index, coalesce(next_index, index)) and deleted_at is null from penstock.collections where id = :collection

-- name: forget_has_points
-- Versions that would be removed there are gone with all others.
with unused as (
  update penstock.collections set has_points = false
  where id = :collection and has_points and index = 'postgres' and next_index is distinct from 'qdrant'
  returning id
),
leaving as (
  delete from penstock.leaving_points where collection_id in (select id from unused)
)
select id from unused

-- name: list_abandoned
select id, index_turn, next_index from penstock.collections
where next_index is not null and next_index_at < penstock.now() - interval '1 minute'
  and not exists (select from penstock.jobs where jobs.id = collections.index_job)
order by id limit :most

-- name: end_abandoned
update penstock.collections
set next_index = null, next_index_at = null, index_job = null, index_turn = index_turn + 1
where id = :collection and index_turn = :turn and next_index is not null
  and not exists (select from penstock.jobs where jobs.id = collections.index_job)
returning id
