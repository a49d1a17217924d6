-- name: find_source
select document.id as document, document.live_id as version, document.tenant, document.collection_id as collection,
  collection.search_language as language, collection.model as embedder
from penstock.documents as document
join penstock.collections as collection on collection.id = document.collection_id
where document.id = :document and document.live_id = :version::bigint

-- name: list_pages
select number, text from (
  select number, text, coalesce(sum(length(text)) over (order by number rows between unbounded preceding and 1 preceding), 0) as before
  from (
    select number, text from penstock.pages where version_id = :version and number > :after order by number limit 500
  ) as next
) as page where before < :most::bigint order by number

-- name: read_spans
select asked.place, substr(page.text, asked.start + 1, asked.stop - asked.start) as text
from unnest(:pages::int[], :starts::int[], :stops::int[]) with ordinality as asked(number, start, stop, place)
join penstock.pages as page on page.version_id = :version and page.number = asked.number

-- name: answered_windows
select ordinal from penstock.extraction_windows where version_id = :version and config = :config

-- name: keep_answer
insert into penstock.extraction_windows (version_id, config, ordinal, answer, tokens_in, tokens_out, cost)
select document.live_id, :config, :ordinal::int, :answer::json, :tokens_in::bigint, :tokens_out::bigint, :cost::float8
from penstock.documents as document where document.id = :document and document.live_id = :version::bigint
on conflict do nothing

-- name: load_answers
select ordinal, answer, tokens_in, tokens_out, cost from penstock.extraction_windows
where version_id = :version and config = :config and ordinal = any (:ordinals::int[])

-- name: forget_answers
delete from penstock.extraction_windows where version_id = :version and config = :config

-- name: hold_entities
select penstock.hold_entities(:collection)

-- name: leave_staged
-- staged -> old: only one job reads a document at a time, so the row is of a job that was killed.
update penstock.extractions set state = 'old' where document_id = :document and state = 'staged'

-- name: begin
-- (new) -> staged
insert into penstock.extractions (tenant, collection_id, document_id, version_id, config, llm, embedder, job_id)
select document.tenant, document.collection_id, document.id, document.live_id, :config, :llm, :embedder, :job::bigint
from penstock.documents as document where document.id = :document and document.live_id = :version::bigint
returning id

-- name: hold
-- A removal of the version waits until this batch is written, and removes it, too.
select extraction.id from penstock.extractions as extraction
join penstock.documents as document on document.id = extraction.document_id and document.live_id = extraction.version_id
where extraction.id = :extraction and extraction.state = 'staged' and document.id = :document and document.live_id = :version::bigint
for key share of extraction

-- name: hold_live
-- A transaction that deletes the document or makes another version live waits for our commit, or its result is visible here.
select id from penstock.documents where id = :document and live_id = :version::bigint for share

-- name: standing_gaps
select jsonb_array_length(gaps) from penstock.extractions
where document_id = :document and version_id = :version and state = 'current'

-- name: retire
-- current -> old
update penstock.extractions set state = 'old' where document_id = :document and state = 'current'

-- name: publish
-- staged -> current
update penstock.extractions
set state = 'current', windows = :windows, answered = :answered, facts = :facts, rejected = :rejected::jsonb, gaps = :gaps::jsonb,
  tokens_in = :tokens_in, tokens_out = :tokens_out, cost = :cost, made_at = penstock.now()
where id = :extraction and state = 'staged'
returning id

-- name: list_wanted
select document.id as document, document.live_id as version
from penstock.documents as document
join penstock.collections as collection on collection.id = document.collection_id
where document.collection_id = :collection and document.id > :after and document.live_id is not null
  and (:every::boolean or not exists (
    select from penstock.extractions as extraction
    where extraction.document_id = document.id and extraction.state = 'current' and extraction.version_id = document.live_id
      and extraction.config = :config and extraction.embedder = collection.model and extraction.gaps = '[]'
  ))
order by document.id limit :most

-- name: list_unasked
-- New versions of collections that keep facts. A dead job holds the key of its version until it is redriven.
select document.id as document, document.live_id as version, collection.tenant, collection.name as collection
from penstock.collections as collection
join penstock.documents as document on document.collection_id = collection.id and document.live_id is not null
where collection.keeps_facts and collection.deleted_at is null
  and not exists (
    select from penstock.extractions as extraction
    where extraction.document_id = document.id and extraction.state = 'current' and extraction.version_id = document.live_id
      and extraction.config = :config and extraction.embedder = collection.model
  )
  and not exists (select from penstock.job_keys where key = 'extract ' || document.live_id::text)
order by document.id limit :most

-- name: keep_facts
update penstock.collections set keeps_facts = :keeps where id = :collection

-- name: show_status
select count(document.id)::int as documents, count(extraction.id)::int as extracted,
  (count(*) filter (where extraction.gaps <> '[]'))::int as partial,
  coalesce(sum(extraction.windows), 0)::int as windows, coalesce(sum(extraction.facts), 0)::int as facts,
  coalesce(sum((select sum(count::int) from jsonb_each_text(extraction.rejected) as reason(name, count))), 0)::int as rejected,
  coalesce(sum(extraction.cost), 0)::float8 as cost, collection.keeps_facts as keeps
from penstock.collections as collection
left join penstock.documents as document on document.collection_id = collection.id and document.live_id is not null
left join penstock.extractions as extraction on extraction.document_id = document.id and extraction.state = 'current'
  and extraction.version_id = document.live_id
  and (:config::text is null or extraction.config = :config::text and extraction.embedder = collection.model)
where collection.id = :collection
group by collection.id

-- name: list_old
-- Also extractions that are staged and whose job has ended or is dead: another attempt begins again.
select extraction.id, extraction.collection_id from penstock.extractions as extraction
where extraction.state = 'old' or extraction.state = 'staged' and not exists (
  select from penstock.jobs as job where job.id = extraction.job_id and job.state <> 'dead'
)
order by extraction.id limit :most

-- name: sweep
with batch as (
  delete from penstock.facts where id = any (array(
    select id from penstock.facts where extraction_id = :extraction limit :most::int
  ))
  returning 1
)
select count(*)::int from batch

-- name: forget_extraction
-- With its answers, when another config is current and no job is about to use them. Those of a removed version are deleted with
-- its pages (documents/deletion/purge.sql).
with gone as (
  delete from penstock.extractions where id = :extraction and state <> 'current' returning version_id, config
)
delete from penstock.extraction_windows as answered using gone
where answered.version_id = gone.version_id and answered.config = gone.config
  and exists (
    select from penstock.extractions as extraction
    where extraction.version_id = gone.version_id and extraction.state = 'current' and extraction.config <> gone.config
  )
  and not exists (select from penstock.job_keys where key = 'extract ' || gone.version_id::text)
