-- The tables of a model are named after it: `VectorTable` puts their names in place of `vectors_model`, `folded_model` and
-- `either_model`.

-- name: live_one
select live_id from penstock.documents where live_id = any (:versions::bigint[]) limit 1

-- name: remove_vectors
with removed as (
  delete from penstock.either_model
  where ctid = any (array(
    select ctid from penstock.either_model
    where collection_id = :collection and version_id = any (:versions::bigint[]) limit :most::int
  ))
  returning 1
)
select count(*)::int from removed

-- name: remove_delta
-- A loop over buckets and versions: the planner has no choice but one look-up for each.
with removed as (
  delete from penstock.postings
  where ctid = any (array(
    select posting.ctid
    from generate_series(0, :buckets::int - 1) as wanted(bucket)
    cross join unnest(:versions::bigint[]) as gone(version)
    cross join lateral (
      select ctid from penstock.postings
      where collection_id = :collection and bucket = wanted.bucket and version_id = gone.version
    ) as posting
    limit :most::int
  ))
  returning 1
)
select count(*)::int from removed

-- name: compacted_terms
select terms from penstock.indexed_batches where version_id = any (:versions::bigint[]) and place <> 'tail'

-- name: compacted_parts
-- Without their contents: their sizes decide how many are written together.
select posting.term, posting.part, octet_length(posting.entries) as size
from unnest(:terms::text[]) as wanted(term)
cross join lateral (
  select term, part, entries from penstock.folded_postings
  where collection_id = :collection and term = wanted.term
    and exists (select from unnest(:versions::bigint[]) as gone(version) where gone.version between lowest and highest)
) as posting
order by posting.term, posting.part

-- name: read_parts
select posting.term, posting.part, posting.entries
from unnest(:terms::text[], :parts::int[]) as wanted(term, part)
join penstock.folded_postings as posting
  on posting.collection_id = :collection and posting.term = wanted.term and posting.part = wanted.part

-- name: remove_chunks
with removed as (
  delete from penstock.chunks
  where ctid = any (array(
    select ctid from penstock.chunks where version_id = any (:versions::bigint[]) limit :most::int
  ))
  returning 1
)
select count(*)::int from removed

-- name: forget_versions
-- The terms of a version lead to its postings, and a version that is not hidden could be seen: both are the last to go.
with batches as (
  delete from penstock.indexed_batches where version_id = any (:versions::bigint[])
)
delete from penstock.hidden_versions where version_id = any (:versions::bigint[])

-- name: count_rows
select gone.version,
  (select count(*) from penstock.chunks where version_id = gone.version)::int as chunks,
  (select count(*) from penstock.indexed_batches where version_id = gone.version)::int as postings,
  (select count(*) from penstock.hidden_versions where version_id = gone.version)::int as hidden
from unnest(:versions::bigint[]) as gone(version)

-- name: count_delta
select gone.version as version_id, count(*)::int as count
from generate_series(0, :buckets::int - 1) as wanted(bucket)
cross join unnest(:versions::bigint[]) as gone(version)
cross join lateral (
  select from penstock.postings where collection_id = :collection and bucket = wanted.bucket and version_id = gone.version
) as posting
group by gone.version

-- name: count_vectors
select version_id, count(*)::int as count from (
  select version_id from penstock.vectors_model
  where collection_id = :collection and version_id = any (:versions::bigint[])
  union all
  select version_id from penstock.folded_model
  where collection_id = :collection and version_id = any (:versions::bigint[])
) as present
group by version_id
