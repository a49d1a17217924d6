-- name: read_statistics
-- The counts are sums of deltas (penstock.tallies), exact at any time.
select asked.id, tally.chunks, tally.words, hidden.versions as hidden,
  (select nspname::text from pg_extension join pg_namespace on pg_namespace.oid = extnamespace where extname = 'vector')
    as vector_schema
from unnest(:collections::int[]) as asked(id)
cross join lateral (
  select coalesce(sum(chunks), 0)::bigint as chunks, coalesce(sum(words), 0)::bigint as words
  from penstock.tallies where collection_id = asked.id
) as tally
cross join lateral (
  select coalesce(array_agg(version_id), '{}') as versions from penstock.hidden_versions where collection_id = asked.id
) as hidden

-- name: allowed_versions
select coalesce(array_agg(document.live_id), '{}') as versions, coalesce(sum(version.chunks), 0)::bigint as chunks
from penstock.documents as document join penstock.versions as version on version.id = document.live_id
where document.collection_id = any (:collections::int[])
  and (:metadata::jsonb is null or document.metadata @> :metadata::jsonb)
  and (:media_types::text[] is null or document.media_type = any (:media_types::text[]))
  and (:since::timestamptz is null or document.created_at >= :since::timestamptz)
  and (:until::timestamptz is null or document.created_at < :until::timestamptz)
