-- name: keep_blobs
-- What is there is locked against the collector; what was dated as unused is taken back, by a write that the collector sees.
with
  wanted as (
    select * from unnest(:keys::text[], :digests::bytea[], :sizes::bigint[]) as wanted(key, digest, size)
  ),
  found as materialized (
    select blob.id, blob.key, blob.digest, blob.size, blob.unused_at
    from penstock.blobs as blob
    join wanted on wanted.digest = blob.digest and wanted.size = blob.size
    where blob.tenant = :tenant and blob.state = 'kept'
    order by blob.digest for key share of blob
  ),
  taken_back as (
    update penstock.blobs set unused_at = null
    where id = any (array(select id from found where unused_at is not null)) and state = 'kept'
    returning id
  ),
  made as (
    insert into penstock.blobs (tenant, key, digest, size)
    select :tenant, key, digest, size from wanted
    where not exists (select from found where found.digest = wanted.digest)
    order by digest
    on conflict (tenant, digest, size) where state = 'kept' do nothing
    returning id, key, digest, size
  )
select id, key, digest, size from found where unused_at is null or id in (select id from taken_back)
union all
select id, key, digest, size from made
