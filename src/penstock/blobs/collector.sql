-- name: note_unused
-- A batch of the table by id: what no version and no message names is dated, what one names is not. The last id, or none at the end.
with batch as materialized (
  select blob.id, blob.unused_at is null as undated,
    not exists (select from penstock.versions where versions.blob_id = blob.id)
      and not exists (select from penstock.inbox_blobs where inbox_blobs.blob_id = blob.id) as unused
  from penstock.blobs as blob where blob.id > :after order by blob.id limit :batch
),
noted as (
  update penstock.blobs as blob set unused_at = case when batch.unused then penstock.now() end
  from batch where blob.id = batch.id and batch.unused = batch.undated
)
select max(id) from batch

-- name: last_blob
select coalesce(max(id), 0) from penstock.blobs

-- name: give_up
-- kept -> deleting, for what no version names; and what an earlier collector has left in between. An intake that takes such a row
-- writes to it, so that it is skipped here while the intake lasts, and checked again after it.
with unused as (
  select id from penstock.blobs as blob
  where (state = 'deleting' or unused_at < penstock.now() - :grace::interval)
    and not exists (select from penstock.versions where versions.blob_id = blob.id)
    and not exists (select from penstock.inbox_blobs where inbox_blobs.blob_id = blob.id)
  order by id limit :batch for update skip locked
)
update penstock.blobs set state = 'deleting'
where id = any (array(select id from unused))
returning id, key

-- name: forget
delete from penstock.blobs where id = any (:ids::bigint[]) and state = 'deleting'

-- name: unknown_keys
select key from unnest(:keys::text[]) as found(key)
where not exists (select from penstock.blobs where blobs.key = found.key)
