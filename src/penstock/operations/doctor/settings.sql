-- name: clock
select extract(epoch from penstock.now())::float

-- name: statement_timeout
-- Of our role and database; what this session has set for itself does not count.
select coalesce((
  select (regexp_match(chosen, '^statement_timeout=(\d+)$'))[1]::int
  from pg_db_role_setting, unnest(setconfig) as chosen
  where setdatabase in (0, (select oid from pg_database where datname = current_database()))
    and setrole in (0, (select oid from pg_roles where rolname = session_user)) and chosen ~ '^statement_timeout=\d+$'
  order by setrole desc, setdatabase desc limit 1
), (select reset_val::int from pg_settings where name = 'statement_timeout' and source in ('configuration file', 'command line')), 0)

-- name: codes
-- Kinds that have been served by several codes for longer than a deploy takes, and the oldest worker among them.
with serving as (
  select kind, name, host, pid, started_at, load ->> 'code' as code
  from penstock.workers cross join lateral unnest(kinds) as kind
  where gone_at is null and not draining and load ->> 'code' is not null
    and started_at < penstock.now() - interval '15 minutes' and heartbeat_at + lease >= penstock.now()
)
select min(kind) as kind, codes, name, host, pid, max(since) as since
from (
  select kind, array_agg(distinct code order by code) as codes, (array_agg(name order by started_at))[1] as name,
    (array_agg(host order by started_at))[1] as host, (array_agg(pid order by started_at))[1] as pid,
    penstock.now() - max(started_at) as since
  from serving group by kind having count(distinct code) > 1
) as mixed
group by codes, name, host, pid order by name
