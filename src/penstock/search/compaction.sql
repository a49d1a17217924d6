-- name: needs_compaction
select batch.collection_id, collection.model, sum(batch.chunks)::int as chunks
from penstock.indexed_batches as batch join penstock.collections as collection on collection.id = batch.collection_id
where batch.place <> 'folded' and collection.deleted_at is null
  and exists (select from penstock.documents where live_id = batch.version_id)
group by batch.collection_id, collection.model having sum(batch.chunks) > :delta::int
order by batch.collection_id

-- name: try_alone
-- Until the session ends.
select pg_try_advisory_lock(hashtext('penstock compaction'), :collection::int)

-- name: is_searched_here
select 'postgres' in (index, coalesce(next_index, index)) from penstock.collections where id = :collection

-- name: live_chunks
select coalesce(sum(chunks), 0)::bigint from penstock.tallies where collection_id = :collection
