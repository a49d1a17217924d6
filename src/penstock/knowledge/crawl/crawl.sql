-- name: lock_start
-- Of two clients that start the same crawl concurrently, the second sees the crawl of the first.
select pg_advisory_xact_lock(hashtextextended('penstock crawl ' || :key::text, 0))

-- name: find_running
select id from penstock.crawls
where tenant = :tenant and collection_id = :collection and url = :url and state = 'running' order by id limit 1

-- name: reserve_id
select nextval('penstock.jobs_id_seq')

-- name: insert_crawl
-- (new) -> running. Its first page is all that is known yet.
with crawl as (
  insert into penstock.crawls (id, tenant, collection_id, url, hosts, depth, max_pages, job_id, begun_by)
  values (:crawl, :tenant, :collection, :url, :hosts::text[], :depth, :max_pages, :job, :begun_by)
  returning id, tenant, url
)
insert into penstock.crawl_pages (crawl, tenant, url, depth) select id, tenant, url, 0 from crawl

-- name: crawl_facts
crawl.id, crawl.tenant, crawl.collection_id, collection.name as collection, crawl.url, crawl.hosts, crawl.depth, crawl.max_pages,
  crawl.job_id, crawl.begun_by, crawl.state, crawl.error, crawl.created_at, crawl.ended_at

-- name: crawl_counts
join lateral (
  select count(*) filter (where page.state = 'waiting') as waiting, count(*) filter (where page.state = 'kept') as kept,
    count(*) filter (where page.state = 'skipped') as skipped, count(*) filter (where page.state = 'failed') as failed,
    coalesce(sum(page.left_out), 0)::bigint as left_out,
    count(document.id) filter (where document.state = 'queued') as unprepared
  from penstock.crawl_pages as page
  left join penstock.documents as document on document.id = page.document_id
  where page.crawl = crawl.id
) as pages on true

-- name: show_crawl
select
  -- include: crawl.sql crawl_facts
  , pages.*
from penstock.crawls as crawl
join penstock.collections as collection on collection.id = crawl.collection_id
-- include: crawl.sql crawl_counts
where crawl.id = :crawl and crawl.tenant = :tenant

-- name: list_crawls
select
  -- include: crawl.sql crawl_facts
  , pages.*
from (
  select * from penstock.crawls
  where tenant = :tenant and id > :after and (:collection::int is null or collection_id = :collection)
    and (:state::text is null or state = :state) and (:seen::int[] is null or collection_id = any (:seen))
  order by id limit :most
) as crawl
join penstock.collections as collection on collection.id = crawl.collection_id
-- include: crawl.sql crawl_counts
order by crawl.id

-- name: list_pages
select id, url, depth, state, reason, document_id as document, left_out, changed_at from penstock.crawl_pages
where crawl = :crawl and tenant = :tenant and id > :after and (:state::text is null or state = :state) order by id limit :most

-- name: sweep_crawls
-- Crawls that ended long ago, a few at a time: a crawl may have many pages.
delete from penstock.crawls where id = any (array(
  select id from penstock.crawls where ended_at < penstock.now() - :kept::interval order by ended_at limit :most::int
  for update skip locked
))
returning id
