-- `table_of_versions` stands for the table that is checked (leftovers.py).

-- name: vector_tables
select relname from pg_class where relnamespace = 'penstock'::regnamespace and relkind = 'r' and relname ~ '^(folded_)?vectors_'

-- name: gone_versions
-- Those without a row, and those that were cleared: neither ever comes back.
select asked.version_id, version.document_id, coalesce(version.tenant, 'default') as tenant
from unnest(:versions::bigint[]) as asked(version_id)
left join penstock.versions as version on version.id = asked.version_id
where version.id is null or version.cleared_at is not null

-- name: next_versions
-- From one version to the next by the index: one look-up for each, however many rows it has.
with recursive step as (
  (select version_id from penstock.table_of_versions where version_id > :after order by version_id limit 1)
  union all
  select following.version_id from step cross join lateral (
    select version_id from penstock.table_of_versions where version_id > step.version_id order by version_id limit 1
  ) as following
)
select version_id from step limit :most

-- name: next_pairs
with recursive step as (
  (select collection_id, version_id from penstock.table_of_versions
  where (collection_id, version_id) > (:collection::int, :version::bigint)
  order by collection_id, version_id limit 1)
  union all
  select following.collection_id, following.version_id from step cross join lateral (
    select collection_id, version_id from penstock.table_of_versions
    where (collection_id, version_id) > (step.collection_id, step.version_id)
    order by collection_id, version_id limit 1
  ) as following
)
select collection_id, version_id from step limit :most

-- name: next_postings
select collection_id, bucket, version_id, first from penstock.postings
where (collection_id, bucket, version_id, first) > (:collection::int, :bucket::int, :version::bigint, :first::int)
order by collection_id, bucket, version_id, first limit :most

-- name: with_rows
select asked.version_id from unnest(:versions::bigint[]) as asked(version_id)
where exists (select from penstock.table_of_versions as found where found.version_id = asked.version_id)

-- name: with_vectors
select distinct asked.version_id
from unnest(:versions::bigint[]) as asked(version_id) cross join penstock.collections as collection
where exists (
  select from penstock.table_of_versions as found
  where found.collection_id = collection.id and found.version_id = asked.version_id
)

-- name: with_postings
select distinct asked.version_id
from unnest(:versions::bigint[]) as asked(version_id)
cross join penstock.collections as collection cross join generate_series(0, :buckets::int - 1) as place(bucket)
where exists (
  select from penstock.postings as found
  where found.collection_id = collection.id and found.bucket = place.bucket and found.version_id = asked.version_id
)

-- name: collections_of
select collection_id from penstock.hidden_versions where version_id = :version
union
select collection_id from penstock.indexed_batches where version_id = :version

-- name: collections_with
select collection.id as collection_id from penstock.collections as collection
where exists (
  select from penstock.table_of_versions as found where found.collection_id = collection.id and found.version_id = :version
)

-- name: collections_with_postings
select collection.id as collection_id from penstock.collections as collection
where exists (
  select from generate_series(0, :buckets::int - 1) as place(bucket)
  join penstock.postings as found
    on found.collection_id = collection.id and found.bucket = place.bucket and found.version_id = :version
)

-- name: hide
insert into penstock.hidden_versions (version_id, collection_id)
select :version, :collection
where not exists (select from penstock.documents where live_id = :version)
on conflict do nothing

-- name: remove_tail
delete from penstock.postings as posting using generate_series(0, :buckets::int - 1) as gone(bucket)
where posting.collection_id = :collection and posting.bucket = gone.bucket and posting.version_id = :version
returning posting.bucket

-- name: remove_vectors
delete from penstock.table_of_versions
where ctid = any (array(
  select ctid from penstock.table_of_versions where collection_id = :collection and version_id = :version limit :most::int
))
returning ordinal

-- name: remove_chunks
delete from penstock.chunks
where version_id = :version
  and ordinal = any (array(select ordinal from penstock.chunks where version_id = :version order by ordinal limit :most::int))
returning ordinal

-- name: remove_pages
delete from penstock.pages
where version_id = :version
  and number = any (array(select number from penstock.pages where version_id = :version order by number limit :most::int))
returning number

-- name: forget_hidden
delete from penstock.hidden_versions where version_id = :version
