-- name: dead_rows
-- Dead rows of the tables whose rows live for seconds.
select relname as name, n_live_tup as live, n_dead_tup as dead, last_autovacuum
from pg_stat_user_tables
where schemaname = 'penstock' and relname = any (:tables::text[]) and n_dead_tup >= :least::bigint and n_dead_tup > n_live_tup
order by n_dead_tup desc

-- name: unvacuumed
-- Tables without autovacuum; a name of null stands for the whole server.
select null as name where not current_setting('autovacuum')::bool
union all
select relname from pg_class
where relnamespace = 'penstock'::regnamespace and relname = any (:tables::text[])
  and exists (
    select from pg_options_to_table(reloptions)
    where option_name = 'autovacuum_enabled' and not option_value::bool
  )
order by 1 nulls first

-- name: long_transactions
-- Transactions that keep vacuum from removing dead rows: they have a snapshot or an id. By the server's own clock, as
-- transactions are dated by it.
select pid, application_name, usename, state, left(query, 100) as query, clock_timestamp() - xact_start as age
from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'
  and (backend_xmin is not null or backend_xid is not null)
  and xact_start < clock_timestamp() - :long_after::interval
order by xact_start

-- name: unmeasured
-- Tables of which most rows were added or changed since the last analyze.
select relname as name, n_live_tup as live, n_mod_since_analyze as changed
from pg_stat_user_tables
where schemaname = 'penstock' and n_live_tup >= :least::bigint and n_mod_since_analyze > n_live_tup / 2
  and n_mod_since_analyze >= :least::bigint
order by n_mod_since_analyze desc limit 10
