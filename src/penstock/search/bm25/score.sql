-- name: read_postings
-- All entries of each term, in one piece. The rarest terms come first. A term that is too common is left out when there is a
-- rarer one, and so are terms beyond the limit of entries. The number of entries of a row is known without reading them.
with
  found as materialized (
    select wanted.place, posting.entries, octet_length(posting.entries) / 12 as size
    from unnest(:terms::text[], :buckets::int[]) with ordinality as wanted(term, bucket, place)
    cross join unnest(:collections::int[]) as asked(id)
    cross join lateral (
      select entries[array_position(terms, wanted.term)] from penstock.postings
      where collection_id = asked.id and bucket = wanted.bucket and wanted.term = any (terms)
      union all
      select entries from penstock.folded_postings where collection_id = asked.id and term = wanted.term
    ) as posting
  ),
  sizes as (
    select place, sum(size) as size from found group by place
  ),
  ranked as (
    select place, size, row_number() over rarest as place_by_size, sum(size) over rarest as total
    from sizes window rarest as (order by size, place)
  )
select string_agg(found.entries, '') as entries
from ranked join found on found.place = ranked.place
where ranked.place_by_size = 1 or (ranked.size <= :common::bigint and ranked.total <= :most::bigint)
group by ranked.place order by ranked.place
