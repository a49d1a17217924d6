-- name: claim_key
-- Ours if it is new, or its holder is dead, or its answer has expired; otherwise the row as it is. No row: it is being claimed.
with mine as (
  insert into penstock.idempotency as present (tenant, route, key, holder) values (:tenant, :route, :key, :holder)
  on conflict (tenant, route, key) do update
  set holder = excluded.holder, begun_at = penstock.now(), status = null, answer = null, fingerprint = null
  where present.begun_at < penstock.now() - case when present.status is null then :dead_after::interval else :kept::interval end
  returning holder, status, fingerprint, answer
)
select holder, status, fingerprint, answer from mine
union all
select holder, status, fingerprint, answer from penstock.idempotency
where tenant = :tenant and route = :route and key = :key and not exists (select from mine)

-- name: renew_key
update penstock.idempotency set begun_at = penstock.now()
where tenant = :tenant and route = :route and key = :key and holder = :holder and status is null

-- name: settle_key
update penstock.idempotency
set status = :status, answer = :answer::json, fingerprint = :fingerprint, begun_at = penstock.now()
where tenant = :tenant and route = :route and key = :key and holder = :holder and status is null
returning true

-- name: free_key
delete from penstock.idempotency
where tenant = :tenant and route = :route and key = :key and holder = :holder and status is null

-- name: sweep_keys
with old as (
  select tenant, route, key from penstock.idempotency where begun_at < penstock.now() - :kept::interval
  order by begun_at limit :batch for update skip locked
)
delete from penstock.idempotency using old
where idempotency.tenant = old.tenant and idempotency.route = old.route and idempotency.key = old.key
returning idempotency.key
