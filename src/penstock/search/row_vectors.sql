-- The tables are named after what they belong to and a model. row_vectors.py puts names in place of `near_table`, `owner_table`
-- and `vector_schema`, a number in place of `dimensions_number`.

-- name: dimensions
-- Of the table, if there is one.
select atttypmod from pg_attribute where attrelid = to_regclass('penstock.near_table') and attname = 'embedding'

-- name: exists
select to_regclass('penstock.near_table') is not null

-- name: create
create table if not exists penstock.near_table (
  id        bigint primary key references penstock.owner_table on delete cascade,
  group_id  bigint not null,
  embedding vector_schema.halfvec(dimensions_number) not null
) with (autovacuum_vacuum_scale_factor = 0.1)

-- name: store_in_the_row
alter table penstock.near_table alter column embedding set storage plain

-- name: index_groups
create index if not exists near_table_of_group on penstock.near_table (group_id)

-- name: guard_facts
-- A request sees those of its tenant's collections. As an array, which is made once: there are few collections.
select penstock.guard('penstock.near_table', 'group_id = any (array(select id::bigint from penstock.collections))', false)

-- name: guard_memos
-- There may be 100,000 streams, and a request asks for few of them: each is looked up.
select penstock.guard('penstock.near_table', 'exists (select from penstock.streams where streams.id = group_id)', false)

-- name: put
insert into penstock.near_table (id, group_id, embedding)
select id, :group::bigint, text::vector_schema.halfvec from unnest(:ids::bigint[], :texts::text[]) as given(id, text)

-- name: nearest
-- Rows of a small group are compared one by one. The index, if there is one, serves a group that is most of the table.
select id, embedding operator(vector_schema.<#>) :asked::text::vector_schema.halfvec as distance
from penstock.near_table where group_id = any (:groups::bigint[])
order by embedding operator(vector_schema.<#>) :asked::text::vector_schema.halfvec limit :most::int

-- name: models_of
select substr(relname::text, length(:prefix::text) + 1) as model from pg_class
where starts_with(relname::text, :prefix::text) and relkind = 'r' and relnamespace = 'penstock'::regnamespace
order by relname

-- name: needs_index
-- By the planner's estimate, which is good enough and free.
select reltuples > :many and not exists (
  select from pg_index where indexrelid = to_regclass('penstock.near_table_by_meaning') and indisvalid
)
from pg_class where oid = to_regclass('penstock.near_table')

-- name: drop_index
drop index concurrently if exists penstock.near_table_by_meaning

-- name: build_index
create index concurrently near_table_by_meaning on penstock.near_table using hnsw (embedding vector_schema.halfvec_ip_ops)
