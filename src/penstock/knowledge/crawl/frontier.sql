-- name: load_crawl
-- A crawl for its job.
select crawl.id, crawl.tenant, crawl.collection_id, collection.name as collection, collection.deleted_at is not null as gone,
  crawl.url, crawl.hosts, crawl.depth, crawl.max_pages, crawl.state, crawl.round, crawl.round_open, crawl.begun_by
from penstock.crawls as crawl
join penstock.collections as collection on collection.id = crawl.collection_id
where crawl.id = :crawl

-- name: load_page
select id, url, depth, state from penstock.crawl_pages where id = :page and crawl = :crawl

-- name: open_round
-- The next pages that wait, if no round is open; each keeps the number of its round.
with next as (
  select id from penstock.crawl_pages
  where crawl = :crawl and state = 'waiting' and round is null
  order by depth, id limit :most::int
),
opened as (
  update penstock.crawls set round = round + 1, round_open = true
  where id = :crawl and not round_open and exists (select from next)
  returning round
)
update penstock.crawl_pages as page set round = opened.round from opened where page.id in (select id from next)
returning page.id

-- name: pages_of_round
-- In an order that never changes: the calls of a fan-out are always the same.
select id, depth from penstock.crawl_pages where crawl = :crawl and round = :round order by id

-- name: close_round
update penstock.crawls set round_open = false where id = :crawl and round = :round

-- name: fail_unsettled
-- Pages of a round whose jobs have ended without an outcome: dead, or cancelled.
update penstock.crawl_pages as page set state = 'failed', reason = told.reason, changed_at = penstock.now()
from unnest(:pages::bigint[], :reasons::text[]) as told(id, reason)
where page.id = told.id and page.crawl = :crawl and page.state = 'waiting'

-- name: progress_of
select count(*) filter (where state <> 'waiting') as done, count(*) as known,
  count(*) filter (where state = 'kept') as kept, count(*) filter (where state = 'skipped') as skipped,
  count(*) filter (where state = 'failed') as failed
from penstock.crawl_pages where crawl = :crawl

-- name: first_page
select id, state, reason, url from penstock.crawl_pages where crawl = :crawl and depth = 0 order by id limit 1

-- name: end_crawl
-- running -> done
update penstock.crawls set state = 'done', round_open = false, ended_at = penstock.now()
where id = :crawl and state = 'running' returning id

-- name: lock_frontier
-- Outcomes of pages of one crawl are recorded one after the other. Not by a lock of the crawl's row: a cancellation of its job
-- takes that in another order.
select pg_advisory_xact_lock(7046029254386353131::bigint # :crawl::bigint)

-- name: hold_page
-- A page that still waits; no row: another address has led to it concurrently.
select id from penstock.crawl_pages where id = :page and crawl = :crawl and state = 'waiting' for update

-- name: settle_page
-- waiting -> kept, skipped, failed
update penstock.crawl_pages set state = :state, reason = :reason, document_id = :document, left_out = :left_out,
  changed_at = penstock.now()
where id = :page

-- name: find_address
select id, state from penstock.crawl_pages where crawl = :crawl and url = :url

-- name: find_twin
-- A page of this crawl with the very same bytes.
select page.url
from penstock.blobs as blob
join penstock.versions as version on version.blob_id = blob.id
join penstock.documents as document on document.version_id = version.id
join penstock.crawl_pages as page on page.document_id = document.id
where blob.tenant = :tenant and blob.digest = :digest and blob.state = 'kept' and page.crawl = :crawl
limit 1

-- name: take_address
-- Where a redirect leads is the page: (new), waiting, failed -> kept. No row: it has another outcome.
insert into penstock.crawl_pages as page (crawl, tenant, url, depth, state, document_id)
values (:crawl, :tenant, :url, :depth, 'kept', :document)
on conflict (crawl, url) do update set state = 'kept', reason = '', document_id = excluded.document_id, changed_at = penstock.now()
  where page.state in ('waiting', 'failed')
returning id

-- name: add_pages
-- (new) -> waiting, for addresses that are new, as far as the limit allows. How many there were, and how many were added.
with wanted as (
  select url, place from unnest(:urls::text[]) with ordinality as link(url, place)
  where not exists (select from penstock.crawl_pages as page where page.crawl = :crawl::bigint and page.url = link.url)
),
room as (
  select greatest(0, :max_pages::int - count(*)) as pages from penstock.crawl_pages
  where crawl = :crawl and (state = 'waiting' or round is not null)
),
added as (
  insert into penstock.crawl_pages (crawl, tenant, url, depth)
  select :crawl::bigint, :tenant::text, url, :depth::int from wanted order by place limit (select pages from room)
  on conflict (crawl, url) do nothing
  returning 1
)
select (select count(*) from wanted)::int as wanted, (select count(*) from added)::int as added

-- name: note_skipped
-- (new) -> skipped: addresses that are not fetched, listed up to a limit.
insert into penstock.crawl_pages (crawl, tenant, url, depth, state, reason)
select :crawl::bigint, :tenant::text, url, :depth::int, 'skipped', :reason::text from unnest(:urls::text[]) with ordinality as link(url, place)
order by place
limit greatest(0, :most::int - (
  select count(*) from penstock.crawl_pages where crawl = :crawl and state = 'skipped' and round is null
))
on conflict (crawl, url) do nothing
