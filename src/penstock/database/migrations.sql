-- name: try_lock
-- Of the session, not of a transaction: some migrations run outside of one.
select pg_try_advisory_lock(hashtext('penstock'), hashtext('migrations'))

-- name: unlock
select pg_advisory_unlock(hashtext('penstock'), hashtext('migrations'))

-- name: create_schema
create schema if not exists penstock

-- name: create_registry
create table if not exists penstock.migrations (
  number     int primary key,
  name       text not null,
  checksum   text not null,
  applied_at timestamptz not null default clock_timestamp()
)

-- name: has_registry
select to_regclass('penstock.migrations') is not null

-- name: applied_migrations
select number, checksum from penstock.migrations order by number

-- name: record_migration
insert into penstock.migrations (number, name, checksum) values (:number, :name, :checksum)

-- name: grants
-- The statements themselves: a name cannot be a parameter, and format quotes it.
select format(form, :role::text) as statement
from unnest(array[
  'grant usage on schema penstock to %I',
  'grant select, insert, update, delete on all tables in schema penstock to %I',
  'grant usage on all sequences in schema penstock to %I'
]) as form
union all
-- The role that works for all tenants, and the role of a request, for the time of a transaction (schema/0008_access.sql).
select format('grant %I to %I', rolname, :role::text) from pg_roles where rolname in ('penstock_fleet', 'penstock_request')
