-- What must be true of documents whatever has happened; each row is a violation.
with live as (
  select document.id, document.name, document.collection_id, document.live_id as version_id, version.chunks, version.pages
  from penstock.documents as document join penstock.versions as version on version.id = document.live_id
),
counted as (
  select live.*,
    (select count(*) from penstock.chunks where chunks.version_id = live.version_id) as chunk_rows,
    (select count(distinct ordinal) from penstock.chunks where chunks.version_id = live.version_id) as ordinals,
    (select count(*) from penstock.vectors_static as vector where vector.version_id = live.version_id)
      + (select count(*) from penstock.folded_vectors_static as vector where vector.version_id = live.version_id) as vectors,
    (select coalesce(sum(batch.chunks), 0) from penstock.indexed_batches as batch where batch.version_id = live.version_id)
      as indexed,
    (select count(*) from penstock.pages where pages.version_id = live.version_id) as page_rows
  from live
)
select format('%s has %s chunks, and %s rows of them', name, chunks, chunk_rows) as said from counted where chunks <> chunk_rows
union all
select format('%s has %s chunks of %s numbers', name, chunk_rows, ordinals) from counted where chunk_rows <> ordinals
union all
select format('%s has %s chunks and %s vectors', name, chunks, vectors) from counted where chunks <> vectors
union all
select format('%s has %s chunks, and %s of them in the postings', name, chunks, indexed) from counted where chunks <> indexed
union all
select format('%s has %s pages, and %s rows of them', name, pages, page_rows) from counted where pages <> page_rows
union all
select format('%s is hidden, and live', name) from live where version_id in (select version_id from penstock.hidden_versions)
union all
select format('%s is queued, and has no live job', name) from penstock.documents
where state = 'queued' and not exists (
  select from penstock.jobs where jobs.id = documents.job_id and jobs.state <> 'dead'
)
union all
select format('the version %s has no blob', version.id) from penstock.versions as version
where not exists (select from penstock.blobs where blobs.id = version.blob_id and blobs.state = 'kept')
union all
select format('the name %s is there %s times', name, count(*)) from penstock.documents
where state <> 'deleted' group by tenant, collection_id, name having count(*) > 1
union all
select format('collection %s says %s documents and %s chunks, and has %s and %s', tally.collection_id, tally.documents, tally.chunks,
  coalesce(real.documents, 0), coalesce(real.chunks, 0))
from (
  select collection_id, sum(documents) as documents, sum(chunks) as chunks from penstock.tallies group by collection_id
) as tally
left join (
  select collection_id, count(*) as documents, sum(chunks) as chunks from live group by collection_id
) as real on real.collection_id = tally.collection_id
where (tally.documents, tally.chunks) is distinct from (coalesce(real.documents, 0), coalesce(real.chunks, 0))
