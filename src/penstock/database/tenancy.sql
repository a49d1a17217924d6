-- name: is_guarded
-- Whether the tables have policies, and we may take the role for which they count.
select exists (select from pg_class where oid = to_regclass('penstock.documents') and relrowsecurity)
  and exists (select from pg_roles where rolname = 'penstock_request' and pg_has_role(current_user, oid, 'usage'))
