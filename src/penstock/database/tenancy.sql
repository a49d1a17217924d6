-- name: is_guarded
-- Whether the tables have policies, and we may take the role for which they count.
select exists (select from pg_class where oid = to_regclass('penstock.documents') and relrowsecurity)
  and exists (select from pg_roles where rolname = 'penstock_request' and pg_has_role(current_user, oid, 'usage'))

-- name: make_roles
-- Another database of the server may have made them, or make them at this moment; and not every user may make roles.
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
