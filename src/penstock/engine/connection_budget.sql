-- name: try_budget_lock
-- Until the end of the transaction: a worker that counts and registers under it sees all that have registered before.
select pg_try_advisory_xact_lock(hashtext('penstock'), hashtext('budget'))

-- name: limits
-- Each limit that the server sets for us, and the sessions that count against it without being a registered worker's.
-- Superusers are not bound by the limits of a role or a database. Without the privilege to see more, the type of a session
-- is null, and it counts as one.
with
  me as (
    select oid as role, rolname, rolconnlimit, rolsuper from pg_roles where rolname = session_user
  ),
  here as (
    select oid as database, datname, datconnlimit from pg_database where datname = current_database()
  ),
  marks as (  -- a release that did not record how many it may open counts with those that it has
    select right(name, 40) as mark from penstock.workers where gone_at is null and connections > 0
    union all select :mark
  ),
  other as (
    select session.usesysid as role, session.datid as database,
      -- Sessions of workers go when those stop; an API and other programs stay.
      session.application_name not like 'penstock-%' or session.application_name like 'penstock-api%' as stays
    from pg_stat_activity as session
    where coalesce(session.backend_type, 'client backend') = 'client backend'
      and session.usesysid is not null and session.datid is not null
      and not exists (
        select from marks
        where session.application_name like 'penstock-%' and split_part(session.application_name, ' ', 2) = marks.mark
      )
  )
select 'max_connections less the reserved' as name,
  current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
    - coalesce(current_setting('reserved_connections', true)::int, 0) as size,  -- since PostgreSQL 16
  (select count(*) from other)::int as others,
  (select count(*) from other where stays)::int as staying
union all
select format('connection limit of the role %s', me.rolname), me.rolconnlimit,
  (select count(*) from other where other.role = me.role)::int,
  (select count(*) from other where other.role = me.role and stays)::int
from me where me.rolconnlimit >= 0 and not me.rolsuper
union all
select format('connection limit of the database %s', here.datname), here.datconnlimit,
  (select count(*) from other where other.database = here.database)::int,
  (select count(*) from other where other.database = here.database and stays)::int
from here cross join me where here.datconnlimit >= 0 and not me.rolsuper

-- name: allowances
-- What the registered workers may open, whatever they have open now.
select name, connections from penstock.workers where gone_at is null order by id
