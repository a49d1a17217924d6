-- name: missing_partitions
-- The statements that make the history's partitions of today and the next two days. A table is made and then attached,
-- which locks the history less than making it as a partition would.
select format(
  'create table if not exists penstock.job_history_%1$s (like penstock.job_history including all); '
  'alter table penstock.job_history attach partition penstock.job_history_%1$s for values from (%2$L) to (%3$L)',
  to_char(day, 'YYYYMMDD'), day, day + interval '1 day') as statement
from generate_series(date_trunc('day', penstock.now(), 'UTC'),
  date_trunc('day', penstock.now(), 'UTC') + interval '2 days', interval '1 day') as day
where to_regclass('penstock.job_history_' || to_char(day, 'YYYYMMDD')) is null

-- name: try_partition_lock
select pg_try_advisory_xact_lock(hashtext('penstock'), hashtext('partitions'))
