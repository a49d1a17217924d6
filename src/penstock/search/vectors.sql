-- The tables of a model are named after it. vectors.py puts their names in place of `vectors_model` and `folded_model`, or each of
-- them in place of `either_model`, that of pgvector's schema in place of `vector_schema`, and numbers in place of
-- `collection_number` and `dimensions_number`.

-- name: lock_making
select pg_advisory_xact_lock(hashtext('penstock vectors'), 0)

-- name: create_extension
create extension if not exists vector

-- name: extension
select extversion as version, nspname::text as schema
from pg_extension join pg_namespace on pg_namespace.oid = extnamespace
where extname = 'vector'

-- name: dimensions
-- Of the table, if there is one.
select atttypmod from pg_attribute where attrelid = to_regclass('penstock.vectors_model') and attname = 'embedding'

-- name: create
-- One table for new vectors and for small collections, read from end to end; and one for large collections, each with an index
-- of its own, so that a question about one never walks through another.
create table if not exists penstock.either_model (
  version_id    bigint not null,
  ordinal       int not null,
  collection_id int not null,
  embedding     vector_schema.halfvec(dimensions_number) not null
) with (autovacuum_vacuum_scale_factor = 0.1)

-- name: store_in_the_row
alter table penstock.either_model alter column embedding set storage plain

-- name: index_versions
create index if not exists either_model_of_version on penstock.either_model (collection_id, version_id)

-- name: guard
-- A request sees vectors of its tenant's collections alone (schema/0008_access.sql). As an array, which is made once: a
-- hash look-up for each of 7,500 vectors took 0.5 ms of 5.
select penstock.guard(made, 'collection_id = any (array(select id from penstock.collections))', false)
from unnest(array['penstock.vectors_model'::regclass, 'penstock.folded_model'::regclass]) as made

-- name: exists
select to_regclass('penstock.vectors_model') is not null

-- name: remove
with removed as (
  delete from penstock.either_model
  where ctid = any (array(
    select ctid from penstock.either_model
    where collection_id = :collection and version_id = :version limit :most::int
  ))
  returning 1
)
select count(*)::int from removed

-- name: remove_collection
with removed as (
  delete from penstock.either_model
  where ctid = any (array(select ctid from penstock.either_model where collection_id = :collection limit :most::int))
  returning 1
)
select count(*)::int from removed

-- name: made_models
-- By a range of the name's index; the names of compacted tables begin with another word.
select substr(relname::text, length('vectors_') + 1) as model from pg_class
where relname >= 'vectors_' and relname < 'vectors`' and relkind = 'r' and relnamespace = 'penstock'::regnamespace
order by relname

-- name: count_by_version
select version_id, count(*)::int as vectors from (
  select version_id from penstock.vectors_model where collection_id = :collection and version_id = any (:versions::bigint[])
  union all
  select version_id from penstock.folded_model where collection_id = :collection and version_id = any (:versions::bigint[])
) as vector
group by version_id

-- name: ordinals_of
select ordinal from penstock.vectors_model where collection_id = :collection and version_id = :version
union all
select ordinal from penstock.folded_model where collection_id = :collection and version_id = :version
order by ordinal

-- name: read_points
-- Vectors of ranges of chunks, as arrays of numbers.
select vector.version_id as version, vector.ordinal, vector.collection_id as collection, vector.embedding::real[] as vector
from unnest(:versions::bigint[], :firsts::int[], :stops::int[]) as span(version_id, first, stop)
cross join lateral (
  select * from penstock.vectors_model as fresh
  where fresh.collection_id = :collection and fresh.version_id = span.version_id
    and fresh.ordinal >= span.first and fresh.ordinal < span.stop
  union all
  select * from penstock.folded_model as compacted
  where compacted.collection_id = :collection and compacted.version_id = span.version_id
    and compacted.ordinal >= span.first and compacted.ordinal < span.stop
) as vector
order by version, ordinal

-- name: indexed_collections
-- Those whose compacted vectors have a complete index.
select asked.id from unnest(:collections::int[]) as asked(id)
join pg_index on indexrelid = to_regclass(format('penstock.%I', :compacted::text || '_' || asked.id)) and indisvalid

-- name: nearest
-- Every vector is compared. The subquery keeps its rows from being sorted by an index, which would be less than exact.
select version_id, ordinal, distance from (
  (select version_id, ordinal, embedding operator(vector_schema.<#>) :asked::text::vector_schema.halfvec as distance
  from penstock.vectors_model
  where collection_id = any (:collections::int[]) and version_id <> all (:hidden::bigint[])
    and (:allowed::bigint[] is null or version_id = any (:allowed::bigint[]))
  offset 0)
  union all
  (select version_id, ordinal, embedding operator(vector_schema.<#>) :asked::text::vector_schema.halfvec as distance
  from penstock.folded_model
  where collection_id = any (:unindexed::int[]) and version_id <> all (:hidden::bigint[])
    and (:allowed::bigint[] is null or version_id = any (:allowed::bigint[]))
  offset 0)
) as compared
order by distance, version_id, ordinal limit :most::int

-- name: nearest_by_index
select version_id, ordinal, embedding operator(vector_schema.<#>) :asked::text::vector_schema.halfvec as distance
from penstock.folded_model
where collection_id = collection_number and version_id <> all (:hidden::bigint[])
  and (:allowed::bigint[] is null or version_id = any (:allowed::bigint[]))
order by embedding operator(vector_schema.<#>) :asked::text::vector_schema.halfvec limit :most::int

-- name: compactable_versions
select version_id
from (select distinct version_id from penstock.vectors_model where collection_id = :collection) as present
where exists (select from penstock.documents where live_id = present.version_id)
order by version_id

-- name: compact_vectors
with moved as (
  delete from penstock.vectors_model
  where ctid = any (array(
    select ctid from penstock.vectors_model
    where collection_id = :collection and version_id = any (:versions::bigint[])
    order by version_id limit :most::int
  ))
  returning version_id, ordinal, collection_id, embedding
),
kept as (
  insert into penstock.folded_model (version_id, ordinal, collection_id, embedding)
  select version_id, ordinal, collection_id, embedding from moved
)
select count(*)::int from moved

-- name: count_delta
select count(*)::int from penstock.vectors_model where collection_id = :collection

-- name: count_compacted
select count(*)::int from penstock.folded_model where collection_id = :collection

-- name: index_state
-- Null without an index, false for an unfinished one.
select indisvalid from pg_index where indexrelid = to_regclass('penstock.folded_model_collection_number')

-- name: drop_index
drop index concurrently if exists penstock.folded_model_collection_number

-- name: vacuum_gently
-- Taking a vector out of an HNSW index repairs the paths that led through it: half a millisecond each, and as much of the
-- server's cache as questions use. At the usual pace that was four fifths of a processor for a quarter of an hour.
alter table penstock.folded_model set (autovacuum_vacuum_cost_delay = 20)

-- name: build_index
create index concurrently folded_model_collection_number on penstock.folded_model
using hnsw (embedding vector_schema.halfvec_ip_ops) where collection_id = collection_number
