-- Documents of a week in ten collections: of a hundred, 97 are ready, one has failed, one waits, one is deleted; each has a
-- version, two events and a finished job. Without triggers: the rows are as they would leave them.
set session_replication_role = replica;
insert into penstock.collections (name, model, chunk_size, chunk_overlap, ocr_language, search_language)
select 'collection-' || n, 'static', 1000, 100, 'en', 'en' from generate_series(1, 10) as n;
insert into penstock.blobs (key, digest, size)
select md5(n::text), sha256(n::text::bytea), 1000 + n from generate_series(1, 1000) as n;
insert into penstock.lanes (queue, kind, fairness_key)
select 'documents', 'prepare_document', name from penstock.collections;
create temporary table stock as
select n, 10 * n as id, 1 + n % 10 as collection, 10 * n + 1 as job,
  penstock.now() - (:documents::bigint - n) * (interval '7 days' / :documents::bigint) as at,
  case when n > :documents::bigint - :documents::bigint / 200 then 'queued' when n % 100 = 1 then 'failed'
    when n % 100 = 2 then 'deleted' else 'ready' end as state
from generate_series(1, :documents::bigint) as n;
insert into penstock.documents (id, collection_id, name, state, version_id, live_id, job_id, media_type, error, created_at, changed_at, deleted_at)
select id, collection, format('folder-%s/report-%s.pdf', n % 1000, n), state, id, case when state = 'ready' then id end, job,
  case when state = 'ready' then 'application/pdf' end,
  case when state = 'failed' then '{"class": "Permanent", "type": "Corrupt", "message": "This PDF is damaged."}'::jsonb end,
  at, at, case when state = 'deleted' then at end
from stock;
insert into penstock.versions (id, document_id, number, blob_id, job_id, accepted_at, prepared_at, title, pages, chunks, words)
select id, id, 1, 1 + n % 1000, job, at, at + interval '2 s', 'A report', 3, 5, 600 from stock;
insert into penstock.pages (version_id, number, text)
select id, page, repeat('The weir holds and the turbine runs. ', 60) from stock, generate_series(1, 3) as page where n % 1000 = 0;
insert into penstock.events (collection_id, document_id, at, event)
select collection, id, at, 'accepted' from stock union all
select collection, id, at + interval '2 s', case state when 'failed' then 'failed' else 'ready' end from stock where state <> 'queued'
order by 3;
insert into penstock.tallies (collection_id, documents, chunks, words, deleted)
select collection, count(*) filter (where state = 'ready'), 5 * count(*), 600 * count(*), count(*) filter (where state = 'deleted')
from stock group by collection;
insert into penstock.job_history (id, lane, outcome, priority, attempt, failures, enqueued_at, finished_at, worker_id, args, attempts)
select job, collection, 'done', 0, 1, 0, at, at + interval '2 s', 1, json_build_object('document', id, 'version', id),
  array[row(1, 1, at, 2, 'done', null)::penstock.attempt]
from stock where state in ('ready', 'deleted');
insert into penstock.jobs (id, lane, state, args, error, fingerprint, enqueued_at)
select job, collection, case state when 'queued' then 'ready' else 'dead' end::penstock.job_state, json_build_object('document', id, 'version', id),
  case when state = 'failed' then '{"class": "Permanent", "message": "This PDF is damaged.", "traceback": "…"}'::json end,
  case when state = 'failed' then 'cause-' || n % 20 end, at
from stock where state in ('queued', 'failed');
set session_replication_role = origin;
select setval('penstock.jobs_id_seq', 10 * :documents::bigint + 10);
