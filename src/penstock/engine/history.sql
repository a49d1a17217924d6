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

-- name: expired_partition
-- The oldest day that ended longer ago than what is kept, with the statement that drops it. Not while somebody has been
-- reading the history for long, a dump for example: everybody who ends a job would queue behind our wait for him.
select to_char(day.date, 'YYYY-MM-DD') as day, part.reltuples::bigint as rows,
  format('drop table penstock.%I', part.relname) as statement
from pg_inherits
join pg_class as part on part.oid = pg_inherits.inhrelid
cross join lateral (select to_date(right(part.relname, 8), 'YYYYMMDD') as date) as day
where pg_inherits.inhparent = 'penstock.job_history'::regclass
  and part.relname ~ '^job_history_[0-9]{8}$'
  and (day.date + 1)::timestamp at time zone 'UTC' <= penstock.now() - :kept::interval
  and not exists (
    select from pg_locks join pg_stat_activity as reader on reader.pid = pg_locks.pid
    where pg_locks.relation in (pg_inherits.inhparent, pg_inherits.inhrelid)
      and pg_locks.database = (select oid from pg_database where datname = current_database())
      and reader.xact_start < clock_timestamp() - interval '2 s'
  )
order by day.date limit 1

-- name: sweep_rest
with old as (
  select ctid from penstock.job_history_rest
  where finished_at < penstock.now() - :kept::interval order by finished_at limit :bite for update skip locked
),
swept as (
  delete from penstock.job_history_rest where ctid = any (array(select ctid from old)) returning id
)
select count(*)::int from swept
