-- name: collections
select id, name from penstock.collections where tenant = :tenant and name = any (:names::text[]) and deleted_at is null

-- name: create_key
insert into penstock.keys (tenant, name, prefix, digest, scopes, collections, created_by, expires_at)
values (:tenant, :name, :prefix, :digest, :scopes::text[], :collections::int[], :created_by,
  penstock.now() + :expires_in::interval)
returning id

-- name: show_key
-- include: facts.sql key
where key.id = :id

-- name: list_keys
-- include: facts.sql key
where (:tenant::text is null or key.tenant = :tenant) and key.id > :after order by key.id limit :most

-- name: revoke_key
update penstock.keys set revoked_at = coalesce(revoked_at, penstock.now())
where (id = :id::int or prefix = :prefix) and (:tenant::text is null or tenant = :tenant)
returning id

-- name: any_usable_key
select exists (
  select from penstock.keys where revoked_at is null and coalesce(expires_at > penstock.now(), true)
)

-- name: find_key
-- By prefix or by id. Its remaining validity is in seconds, because the clock of the process is not that of the database.
-- That it was used is written now and then, and not for a guess: the digest is that of the key that was sent, if one was.
with found as (
  select id, tenant, name, digest, scopes, collections, revoked_at is not null as revoked,
    extract(epoch from expires_at - penstock.now())::float8 as seconds_left,
    used_at is null or used_at < penstock.now() - interval '5 minutes' as unnoted
  from penstock.keys where case when :prefix::text is null then id = :id::int else prefix = :prefix end
),
noted as (
  update penstock.keys set used_at = penstock.now()
  where id in (
    select id from found
    where unnoted and not revoked and coalesce(seconds_left > 0, true) and coalesce(digest = :digest::bytea, true)
  )
)
select id, tenant, name, digest, scopes, collections, revoked, seconds_left from found
