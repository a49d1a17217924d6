-- name: take_turn
-- Who moves rows of a collection and who removes them do it one after the other.
select pg_advisory_xact_lock(hashtext('penstock index'), :collection::int)

-- name: next_batch
select first, collection_id, place, terms from penstock.indexed_batches where version_id = :version order by first limit 1

-- name: remove_from_tail
-- A loop over the terms: the planner has no other way than one look-up for each.
delete from penstock.postings as posting
using unnest(:terms::text[]) as gone(term)
where posting.collection_id = :collection and posting.term = gone.term
  and posting.version_id = :version and posting.first = :first

-- name: folded_with
select posting.term, posting.part, posting.entries
from unnest(:terms::text[]) as wanted(term)
cross join lateral (
  select term, part, entries from penstock.folded_postings
  where collection_id = :collection and term = wanted.term and :version between lowest and highest
) as posting

-- name: replace_folded
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
-- The terms that were removed are forgotten; with the last of them, the batch.
with gone as (
  delete from penstock.indexed_batches where version_id = :version and first = :first and cardinality(terms) <= :gone::int
)
update penstock.indexed_batches set terms = terms[:gone::int + 1:]
where version_id = :version and first = :first and cardinality(terms) > :gone::int

-- name: begin_folding
-- The versions whose postings are in the tail and may be folded: live ones. From now on some may be in either place.
with chosen as (
  select batch.version_id, batch.first
  from penstock.indexed_batches as batch
  where batch.collection_id = :collection and batch.place <> 'folded'
    and exists (select from penstock.documents where live_id = batch.version_id)
  order by batch.version_id, batch.first
  for update
),
marked as (
  update penstock.indexed_batches as batch set place = 'folding'
  from chosen
  where batch.version_id = chosen.version_id and batch.first = chosen.first and batch.place = 'tail'
)
select distinct version_id from chosen

-- name: end_of_bite
-- The last term of the next rows of the tail.
select max(term) from (
  select term from penstock.postings where collection_id = :collection and term > :after
  order by term limit :most::int
) as bite

-- name: fold_terms
-- All that these versions have for a range of terms moves behind the last part of each term, or into a new part when that is long.
with
  moved as (
    delete from penstock.postings
    where collection_id = :collection and term > :after and term <= :upto and version_id = any (:versions::bigint[])
    returning term, version_id, first, entries
  ),
  gathered as (
    select term, string_agg(entries, '' order by version_id, first) as entries, min(version_id) as lowest,
      max(version_id) as highest
    from moved group by term
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

-- name: end_folding
update penstock.indexed_batches set place = 'folded'
where collection_id = :collection and version_id = any (:versions::bigint[]) and place = 'folding'
