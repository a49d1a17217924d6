-- name: other_processes
select exists (
  select from pg_stat_activity
  where datname = current_database() and application_name in ('penstock-api', 'penstock-worker', 'penstock-app')
)

-- name: has_schema
select to_regclass('penstock.migrations') is not null
