-- The tables of a model are named after it: `VectorTable.named` puts their names in place of `vectors_model` and `folded_model`.

-- name: page
-- The chunks are looked up for these alone: a join could be made by walking through both tables.
select live_id as id, (select chunks from penstock.versions where versions.id = documents.live_id) as chunks
from penstock.documents where live_id > :after order by live_id limit :most

-- name: count_rows
-- A batch whose postings are in the tail has each of its terms there; the buckets are looked up one by one, as the index wants it.
select version.id, document.id as document, document.tenant, document.name, collection.name as collection, collection.model,
  coalesce(version.chunks, 0) as chunks, coalesce(version.pages, 0) as pages,
  (select count(*) from penstock.chunks where chunks.version_id = version.id) as chunk_rows,
  (select count(*) from penstock.pages where pages.version_id = version.id) as page_rows,
  exists (select from penstock.hidden_versions where hidden_versions.version_id = version.id) as hidden,
  batches.indexed, batches.torn
from unnest(:versions::bigint[]) as asked(id)
join penstock.versions as version on version.id = asked.id
join penstock.documents as document on document.live_id = version.id
join penstock.collections as collection on collection.id = document.collection_id
cross join lateral (
  select coalesce(sum(batch.chunks), 0)::bigint as indexed,
    count(*) filter (
      where batch.place = 'tail' and batch.terms <> '' and cardinality(string_to_array(batch.terms, E'\n')) <> (
        select coalesce(sum(cardinality(posting.terms)), 0)
        from generate_series(0, :buckets::int - 1) as place(bucket)
        join penstock.postings as posting
          on posting.collection_id = batch.collection_id and posting.bucket = place.bucket
          and posting.version_id = batch.version_id and posting.first = batch.first
      )
    ) as torn
  from penstock.indexed_batches as batch where batch.version_id = version.id
) as batches

-- name: count_vectors
-- Those that are live now, in a collection that has this model now, and lack some of its vectors, or have too many.
select version.id, document.id as document, document.tenant, document.name, collection.name as collection,
  version.chunks, tail.vectors + folded.vectors as vectors
from unnest(:versions::bigint[]) as asked(id)
join penstock.versions as version on version.id = asked.id
join penstock.documents as document on document.live_id = version.id
join penstock.collections as collection on collection.id = document.collection_id and collection.model = :model
cross join lateral (
  select count(*) as vectors from penstock.vectors_model as vector
  where vector.collection_id = collection.id and vector.version_id = version.id
) as tail
cross join lateral (
  select count(*) as vectors from penstock.folded_model as vector
  where vector.collection_id = collection.id and vector.version_id = version.id
) as folded
where tail.vectors + folded.vectors <> coalesce(version.chunks, 0)

-- name: without_vectors
-- The model has no tables at all.
select version.id, document.id as document, document.tenant, document.name, collection.name as collection,
  version.chunks, 0 as vectors
from unnest(:versions::bigint[]) as asked(id)
join penstock.versions as version on version.id = asked.id
join penstock.documents as document on document.live_id = version.id
join penstock.collections as collection on collection.id = document.collection_id and collection.model = :model
where version.chunks > 0

-- name: show_live
delete from penstock.hidden_versions
where version_id = :version and exists (select from penstock.documents where live_id = :version)
returning version_id

-- name: renewable
-- A document that was prepared again lately and is wrong again would be so the next time, too.
select document.id as document, document.job_id, document.tenant, collection.name as collection, version.blob_id,
  document.metadata, document.uploaded_by
from penstock.documents as document
join penstock.versions as version on version.id = document.live_id
join penstock.collections as collection on collection.id = document.collection_id and collection.deleted_at is null
where document.live_id = :version and document.version_id = :version and document.state = 'ready'
  -- A packet as a whole cannot be prepared from the PDF that was made of it.
  and not exists (select from penstock.packets where packets.version_id = :version)
  and not exists (
    select from penstock.findings as earlier
    where earlier.document_id = document.id and earlier.check_name = :name
      and earlier.repaired_at > penstock.now() - interval '1 day'
  )
  and not exists (  -- without its bytes, preparing it would fail
    select from penstock.findings as missing
    where missing.document_id = document.id and missing.check_name = 'blobs' and missing.ended_at is null
  )
