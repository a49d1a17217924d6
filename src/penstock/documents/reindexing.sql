-- name: lock_models
-- The same lock as for a change of the model: nobody publishes into the collection until the commit.
select pg_advisory_xact_lock(hashtext('penstock models'), :collection::int)

-- name: has_documents
-- Also those that can be restored.
select exists (select from penstock.documents where collection_id = :collection and state <> 'deleted')
  or exists (select from penstock.removals where collection_id = :collection)

-- name: is_under_way
-- A job that is dead or cancelled makes no progress.
select exists (select from penstock.jobs where id = :job and state <> 'dead' and not cancelling)

-- name: change_at_once
-- There is nothing to build.
update penstock.collections
set index = :index, next_index = null, next_index_at = null, index_job = null, index_turn = index_turn + 1,
  has_points = has_points or :index = 'qdrant'
where id = :collection

-- name: begin_next
update penstock.collections
set next_index = :index, next_index_at = penstock.now(), index_job = :job, index_turn = :turn,
  has_points = has_points or :index = 'qdrant'
where id = :collection

-- name: cancel_next
update penstock.collections
set next_index = null, next_index_at = null, index_job = null, index_turn = index_turn + 1
where id = :collection

-- name: is_turn
select exists (
  select from penstock.collections
  where id = :collection and index_turn = :turn and next_index is not null and deleted_at is null
)

-- name: lock_becoming
-- The collection's row, if it is still its turn.
select id, index, next_index from penstock.collections
where id = :collection and index_turn = :turn and next_index is not null and deleted_at is null
for update

-- name: switch_index
-- postgres, becoming qdrant -> qdrant; or the other way.
update penstock.collections
set index = next_index, next_index = null, next_index_at = null, index_job = null, index_turn = index_turn + 1
where id = :collection

-- name: tell_changed
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
