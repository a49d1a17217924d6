-- name: key
-- A key without its digest. Collections that were deleted are left out: no request can name them.
select key.id, key.tenant, key.name, key.prefix, key.scopes,
  case when key.collections is not null then array(
    select collection.name from penstock.collections as collection
    where collection.id = any (key.collections) and collection.deleted_at is null order by collection.name
  ) end as collections,
  key.created_at, key.created_by, key.expires_at, key.revoked_at, key.used_at,
  key.revoked_at is null and coalesce(key.expires_at > penstock.now(), true) as usable
from penstock.keys as key
