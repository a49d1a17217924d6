-- name: partly_read
select collection.name as collection, count(*)::int as documents, min(document.id) as document,
  (array_agg(extraction.gaps -> 0 ->> 'reason' order by document.id))[1] as reason
from penstock.extractions as extraction
join penstock.documents as document on document.id = extraction.document_id and document.live_id = extraction.version_id
join penstock.collections as collection on collection.id = document.collection_id
where extraction.state = 'current' and extraction.gaps <> '[]'
group by collection.id order by collection.id limit 20
