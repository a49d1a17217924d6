-- name: waiting_for_llm
-- Jobs that found no model; each checks again after a while.
select count(*) as count, min(id) as oldest from penstock.jobs where state = 'later' and error ->> 'type' = 'NoModel'

-- name: partly_read
select collection.name as collection, count(*)::int as documents, min(document.id) as document,
  (array_agg(extraction.gaps -> 0 ->> 'reason' order by document.id))[1] as reason
from penstock.extractions as extraction
join penstock.documents as document on document.id = extraction.document_id and document.live_id = extraction.version_id
join penstock.collections as collection on collection.id = document.collection_id
where extraction.state = 'current' and extraction.gaps <> '[]'
group by collection.id order by collection.id limit 20

-- name: sources
-- Waiting and failed messages are counted to a bound.
select source.name, source.tenant, source.received, source.polled_at, source.error, source.error_since, penstock.now() as now,
  (select count(*) from (select from penstock.inbox where inbox.source = source.name and state = 'waiting' limit :most::int) as few) as waiting,
  (select count(*) from (select from penstock.inbox where inbox.source = source.name and state = 'failed' limit :most::int) as few) as failed
from penstock.sources as source order by source.name
