-- name: other_processes
select exists (
  select from pg_stat_activity
  where datname = current_database() and split_part(application_name, ' ', 1) in ('penstock-api', 'penstock-worker', 'penstock-app')
)

-- name: has_schema
select to_regclass('penstock.migrations') is not null

-- name: vacuums
-- The statements themselves: a table cannot be a parameter.
select relname as name, n_dead_tup as dead, format('vacuum (analyze) penstock.%I', relname) as statement
from pg_stat_user_tables where schemaname = 'penstock' and relname = any (:tables::text[])
order by n_dead_tup desc, relname

-- name: dead_rows
select n_dead_tup from pg_stat_user_tables where schemaname = 'penstock' and relname = :name

-- name: make_roles
-- As schema/0008_access.sql does it.
do $$
begin
  if not exists (select from pg_roles where rolname = 'penstock_fleet') then
    create role penstock_fleet nologin;
  end if;
  if not exists (select from pg_roles where rolname = 'penstock_request') then
    create role penstock_request nologin;
  end if;
exception
  when duplicate_object or unique_violation or insufficient_privilege then null;
end $$

-- name: has_roles
select count(*) = 2 from pg_roles where rolname in ('penstock_fleet', 'penstock_request')
