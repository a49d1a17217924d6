-- Access: whose the rows are, and who may ask for them.
--
-- A tenant is a name in a column. Keys belong to one; what a request does is done in the name of its tenant. Each statement of
-- the application names the tenant itself; the policies below are the second net: in a transaction of a request, the database
-- shows only rows of that tenant, whatever the statement says (database/tenancy.py).

create table penstock.keys (
  id           int generated always as identity primary key,
  tenant       text not null default 'default' check (tenant ~ '^[a-z0-9][a-z0-9_-]{0,62}$'),
  name         text not null check (octet_length(name) between 1 and 200),  -- who has it; shown as `uploaded_by`
  prefix       text not null unique,  -- the part that is shown
  digest       bytea not null check (octet_length(digest) = 32),  -- SHA-256 of the whole; the key itself is nowhere
  scopes       text[] not null check (scopes <@ array['read', 'write', 'admin'] and cardinality(scopes) > 0),
  collections  int[],  -- null: all of the tenant
  created_at   timestamptz not null default penstock.now(),
  created_by   text not null default '',
  expires_at   timestamptz,
  revoked_at   timestamptz,
  used_at      timestamptz  -- to a few minutes
);
create index keys_tenant on penstock.keys (tenant, id);

-- What links and sessions are signed with. A new one is made when the last one is a month old.
create table penstock.signing_keys (
  id      text primary key,
  secret  bytea not null check (octet_length(secret) = 32),
  made_at timestamptz not null default penstock.now()
);

-- Two roles, neither of which can log in. `penstock_fleet` is who works for all tenants: the owner and whoever the workers log in
-- as are members of it. `penstock_request` is taken for the time of a transaction (SET LOCAL ROLE), sees one tenant, and owns
-- nothing. Roles belong to the server, not to a database, so another one may have made them. Where we may not make roles, there
-- is no second net, and `penstock doctor` says so. Migrating makes them first (database/tenancy.sql).

-- Who makes a role may give it away, but has it not (since PostgreSQL 16). And they may be there, of another database, and not be
-- ours to take: then it is as if there were none.
do $$
declare
  wanted name;
begin
  for wanted in select rolname from pg_roles where rolname in ('penstock_fleet', 'penstock_request')
    and not pg_has_role(current_user, oid, 'usage')
  loop
    execute format('grant %I to %I', wanted, current_user);
  end loop;
exception
  when insufficient_privilege then
    raise notice 'row-level security is off: this user may not take the roles penstock_fleet and penstock_request';
end $$;

create function penstock.has_roles() returns boolean language sql stable as $$
  select count(*) = 2 from pg_roles
  where rolname in ('penstock_fleet', 'penstock_request') and pg_has_role(current_user, oid, 'usage')
$$;

-- Lets requests see rows of a table only under a condition; who works for all sees everything. Does nothing without the roles.
create function penstock.guard(guarded regclass, condition text, writes boolean) returns void language plpgsql as $$
begin
  if not penstock.has_roles() then
    return;
  end if;
  execute format('alter table %s enable row level security', guarded);
  execute format('alter table %s force row level security', guarded);
  execute format('drop policy if exists fleet on %s', guarded);
  execute format('drop policy if exists request on %s', guarded);
  execute format('create policy fleet on %s to penstock_fleet using (true) with check (true)', guarded);
  if writes then
    execute format('create policy request on %s to penstock_request using (%s) with check (%s)', guarded, condition, condition);
    execute format('grant select, insert, update, delete on %s to penstock_request', guarded);
  else
    execute format('create policy request on %s for select to penstock_request using (%s)', guarded, condition);
    execute format('revoke all on %s from penstock_request', guarded);
    execute format('grant select on %s to penstock_request', guarded);
  end if;
end $$;

-- All tables, as far as the roles are there; again is the same. `penstock db psql -c 'select penstock.guard_all()'` after somebody
-- has made the roles by hand.
create function penstock.guard_all() returns void language plpgsql as $$
declare
  tenant constant text := 'tenant = current_setting(''penstock.tenant'')';
  -- Of which it sees its own. An array is made once; to look into a hash for each of 10,000 vectors costs more.
  collection constant text := 'collection_id = any (array(select id from penstock.collections))';
  version constant text := 'exists (select from penstock.versions where versions.id = version_id)';
  written constant text[] := array['tallies', 'hidden_versions', 'late_versions'];  -- by requests, and without a tenant
  found record;
begin
  if not penstock.has_roles() then
    return;
  end if;
  grant usage on schema penstock to penstock_request;
  -- A request enqueues, cancels and retries: it needs the engine's tables, which have no tenant. They hold numbers of documents;
  -- of content, what a failure says, and in the history the parts of long scans: that is for the first net alone.
  grant select, insert, update, delete on all tables in schema penstock to penstock_request;
  grant usage on all sequences in schema penstock to penstock_request;
  revoke all on penstock.signing_keys, penstock.migrations, penstock.checkpoints from penstock_request;
  -- The results of steps are texts of documents, and a request needs none of them.
  grant delete, select (scope, step, version, digest, job_id, own) on penstock.checkpoints to penstock_request;
  for found in
    select relation.oid::regclass as guarded, relation.relname as name, array_agg(attname::text) as columns
    from pg_class as relation join pg_attribute on attrelid = relation.oid and attnum > 0 and not attisdropped
    where relnamespace = 'penstock'::regnamespace and relkind = 'r' group by relation.oid, relation.relname
  loop
    if 'tenant' = any (found.columns) then
      perform penstock.guard(found.guarded, tenant, true);
    elsif 'collection_id' = any (found.columns) then
      perform penstock.guard(found.guarded, collection, found.name = any (written));
    elsif 'version_id' = any (found.columns) then
      perform penstock.guard(found.guarded, version, false);
    end if;
  end loop;
end $$;

select penstock.guard_all();
