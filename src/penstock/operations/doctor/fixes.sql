-- A table cannot be a parameter: these return the statements to run.

-- name: vacuum
select format('vacuum (analyze) penstock.%I', relname) as statement
from pg_class where relnamespace = 'penstock'::regnamespace and relname = :name

-- name: analyze
select format('analyze penstock.%I', relname) as statement
from pg_class where relnamespace = 'penstock'::regnamespace and relname = :name

-- name: let_vacuum
select format('alter table penstock.%I reset (autovacuum_enabled)', relname) as statement
from pg_class where relnamespace = 'penstock'::regnamespace and relname = :name

-- name: guard_all
select penstock.guard_all()

-- name: is_guarded
select relrowsecurity from pg_class where oid = 'penstock.documents'::regclass
