-- name: take_turn
-- Compaction and removal of one collection take turns.
select pg_advisory_xact_lock(hashtext('penstock index'), :collection::int)

-- name: next_batch
select first, collection_id, place, terms from penstock.indexed_batches where version_id = :version order by first limit 1

-- name: remove_from_delta
-- A loop over the buckets: the planner has no choice but one look-up for each.
delete from penstock.postings as posting
using generate_series(0, :buckets::int - 1) as gone(bucket)
where posting.collection_id = :collection and posting.bucket = gone.bucket
  and posting.version_id = :version and posting.first = :first

-- name: compacted_with
select posting.term, posting.part, posting.entries
from unnest(:terms::text[]) as wanted(term)
cross join lateral (
  select term, part, entries from penstock.folded_postings
  where collection_id = :collection and term = wanted.term and :version between lowest and highest
) as posting

-- name: replace_compacted
with
  given as (
    select * from unnest(:terms::text[], :parts::int[], :contents::bytea[]) as given(term, part, entries)
  ),
  emptied as (
    delete from penstock.folded_postings as posting using given
    where posting.collection_id = :collection and posting.term = given.term and posting.part = given.part
      and octet_length(given.entries) = 0
  )
update penstock.folded_postings as posting set entries = given.entries
from given
where posting.collection_id = :collection and posting.term = given.term and posting.part = given.part
  and octet_length(given.entries) > 0

-- name: shorten_batch
-- Keeps the terms that are left; the batch is deleted with the last of them.
with gone as (
  delete from penstock.indexed_batches where version_id = :version and first = :first and :left::text = ''
)
update penstock.indexed_batches set terms = :left
where version_id = :version and first = :first and :left <> ''

-- name: begin_compaction
-- The live versions whose postings are in the delta. From now on some of their postings may be in either place.
with chosen as (
  select batch.version_id, batch.first
  from penstock.indexed_batches as batch
  where batch.collection_id = :collection and batch.place <> 'folded'
    and exists (select from penstock.documents where live_id = batch.version_id)
  order by batch.version_id, batch.first limit :most::int
  for update
),
marked as (
  update penstock.indexed_batches as batch set place = 'folding'
  from chosen
  where batch.version_id = chosen.version_id and batch.first = chosen.first and batch.place = 'tail'
)
select distinct version_id from chosen

-- name: compact_bucket
-- Appends the postings that the oldest of these versions have in a bucket to the last part of each term, or to a new part when
-- that is long.
with
  chosen as (
    select version_id, first from penstock.postings
    where collection_id = :collection and bucket = :bucket and version_id = any (:versions::bigint[])
    order by version_id, first limit :most::int
  ),
  moved as (
    delete from penstock.postings as posting using chosen
    where posting.collection_id = :collection and posting.bucket = :bucket
      and posting.version_id = chosen.version_id and posting.first = chosen.first
    returning posting.version_id, posting.first, posting.terms, posting.entries
  ),
  gathered as (
    select posting.term, string_agg(posting.entries, '' order by version_id, first) as entries, min(version_id) as lowest,
      max(version_id) as highest
    from moved cross join unnest(moved.terms, moved.entries) as posting(term, entries)
    group by posting.term
  ),
  placed as (
    select gathered.*, coalesce(last.part + (last.size > :long::int)::int, 0) as part
    from gathered left join lateral (
      select part, octet_length(entries) as size from penstock.folded_postings as posting
      where posting.collection_id = :collection and posting.term = gathered.term
      order by part desc limit 1
    ) as last on true
  ),
  kept as (
    insert into penstock.folded_postings as posting (collection_id, term, part, entries, lowest, highest)
    select :collection, term, part, entries, lowest, highest from placed
    on conflict (collection_id, term, part) do update
    set entries = posting.entries || excluded.entries, lowest = least(posting.lowest, excluded.lowest),
      highest = greatest(posting.highest, excluded.highest)
  )
select count(*)::int from moved

-- name: end_compaction
update penstock.indexed_batches set place = 'folded'
where collection_id = :collection and version_id = any (:versions::bigint[]) and place = 'folding'
