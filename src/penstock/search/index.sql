-- name: stage_batch
-- One statement for all but the vectors, because a small document has few rows of each and pays for every round trip. The
-- version is hidden from its first row on. A missing row would show a version that is not live; a superfluous one does no harm.
with
  hidden as (
    insert into penstock.hidden_versions (version_id, collection_id) values (:version, :collection) on conflict do nothing
  ),
  batch as (
    insert into penstock.indexed_batches (version_id, first, collection_id, chunks, terms)
    values (:version, :first, :collection, :chunks, :terms)
  ),
  chunk as (
    insert into penstock.chunks (version_id, ordinal, page, start, stop, heading, text)
    select :version, :first::int + turn - 1, page, start, stop, heading, text
    from unnest(:pages::int[], :starts::int[], :stops::int[], :headings::text[], :texts::text[]) with ordinality
      as passage(page, start, stop, heading, text, turn)
  )
insert into penstock.postings (collection_id, first, version_id, bucket, terms, entries)
select :collection, :first, :version, bucket, array_agg(term), array_agg(entries)
from unnest(string_to_array(:terms, E'\n'), :buckets::int[], :entries::bytea[]) as posting(term, bucket, entries)
group by bucket

-- name: is_live
select exists (select from penstock.documents where live_id = :version)

-- name: collection_of
-- Of a version that has rows and is not live.
select collection_id from penstock.hidden_versions where version_id = :version

-- name: remove_chunks
with removed as (
  delete from penstock.chunks
  where version_id = :version
    and ordinal = any (array(select ordinal from penstock.chunks where version_id = :version order by ordinal limit :most::int))
  returning 1
)
select count(*)::int from removed

-- name: forget_version
-- It has no rows left that have to be hidden.
delete from penstock.hidden_versions where version_id = :version
