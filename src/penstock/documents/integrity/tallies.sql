-- name: page
select collection.id, tally.documents
from penstock.collections as collection
cross join lateral (
  select coalesce(sum(tallies.documents + tallies.deleted), 0)::bigint as documents
  from penstock.tallies where tallies.collection_id = collection.id
) as tally
where collection.id > :after order by collection.id limit :most

-- name: differences
-- What the documents of these collections say, less what the counts say.
select collection.id, collection.tenant, collection.name,
  real.documents - said.documents as documents, real.chunks - said.chunks as chunks, real.words - said.words as words,
  real.deleted - said.deleted as deleted
from unnest(:collections::int[]) as asked(id)
join penstock.collections as collection on collection.id = asked.id
cross join lateral (
  select coalesce(sum(documents), 0)::bigint as documents, coalesce(sum(chunks), 0)::bigint as chunks,
    coalesce(sum(words), 0)::bigint as words, coalesce(sum(deleted), 0)::bigint as deleted
  from penstock.tallies where tallies.collection_id = collection.id
) as said
cross join lateral (
  select count(live.id) as documents, coalesce(sum(live.chunks), 0)::bigint as chunks, coalesce(sum(live.words), 0)::bigint as words,
    count(*) filter (where document.state = 'deleted') as deleted
  from penstock.documents as document left join penstock.versions as live on live.id = document.live_id
  where document.collection_id = collection.id
) as real
where (real.documents, real.chunks, real.words, real.deleted)
  is distinct from (said.documents, said.chunks, said.words, said.deleted)

-- name: compare
-- include: tallies.sql differences

-- name: correct
with off as (
  -- include: tallies.sql differences
)
insert into penstock.tallies (collection_id, documents, chunks, words, deleted)
select id, documents, chunks, words, deleted from off
returning documents, chunks, words, deleted

-- name: sizes
select asked.id, coalesce(sum(tallies.documents + tallies.deleted), 0)::bigint as documents
from unnest(:collections::int[]) as asked(id) left join penstock.tallies on tallies.collection_id = asked.id
group by asked.id

-- name: mark
-- The same as long as nothing that is counted has changed: each change leaves a row, and adding them up makes another one.
select coalesce(string_agg(ctid::text || xmin::text, ' ' order by ctid), '') from penstock.tallies where collection_id = :collection

-- name: count_batch
with batch as materialized (
  select id, state, live_id from penstock.documents where collection_id = :collection and id > :after order by id limit :most
)
select max(batch.id) as last, count(live.id) as documents, coalesce(sum(live.chunks), 0)::bigint as chunks,
  coalesce(sum(live.words), 0)::bigint as words, count(*) filter (where batch.state = 'deleted') as deleted
from batch left join penstock.versions as live on live.id = batch.live_id

-- name: compare_walked
-- What was counted, less what the counts say; none if they were changed since the mark.
select collection.id, collection.tenant, collection.name, :mark::text as mark,
  :documents::bigint - said.documents as documents, :chunks::bigint - said.chunks as chunks, :words::bigint - said.words as words,
  :deleted::bigint - said.deleted as deleted
from penstock.collections as collection
cross join lateral (
  select coalesce(sum(documents), 0)::bigint as documents, coalesce(sum(chunks), 0)::bigint as chunks,
    coalesce(sum(words), 0)::bigint as words, coalesce(sum(deleted), 0)::bigint as deleted,
    coalesce(string_agg(ctid::text || xmin::text, ' ' order by ctid), '') as mark
  from penstock.tallies where tallies.collection_id = collection.id
) as said
where collection.id = :collection and said.mark = :mark::text
  and (:documents::bigint, :chunks::bigint, :words::bigint, :deleted::bigint)
    is distinct from (said.documents, said.chunks, said.words, said.deleted)

-- name: correct_walked
-- The fence: the counts are still those that were compared.
insert into penstock.tallies (collection_id, documents, chunks, words, deleted)
select :collection, :documents, :chunks, :words, :deleted
where :mark::text = (
  select coalesce(string_agg(ctid::text || xmin::text, ' ' order by ctid), '') from penstock.tallies
  where collection_id = :collection
)
returning documents, chunks, words, deleted
