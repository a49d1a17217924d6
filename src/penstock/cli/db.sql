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
