-- name: show_message
select id, source, message_id, number, state, job_id, document_id, error, repeats, conflicts, received_at, changed_at
from penstock.inbox where id = :message and tenant = :tenant

-- name: find_message
select id from penstock.inbox where source = :source and message_id = :message_id and tenant = :tenant

-- name: show_source
-- What waits and what has failed is counted to a bound.
select source.name, source.tenant, source.received, source.repeats, source.conflicts, source.polled_at, source.swept_at, source.error,
  source.error_since, penstock.now() as now,
  (select count(*) from (select from penstock.inbox where inbox.source = source.name and state = 'waiting' limit :most::int) as few) as waiting,
  (select count(*) from (select from penstock.inbox where inbox.source = source.name and state = 'failed' limit :most::int) as few) as failed,
  (
    select min(received_at) from (
      select received_at from penstock.inbox where inbox.source = source.name and state <> 'taken' order by id limit 1000
    ) as first
  ) as waits_since
from penstock.sources as source where source.name = :name and source.tenant = :tenant
