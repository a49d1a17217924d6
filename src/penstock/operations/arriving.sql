-- name: sources
-- What waits and what has failed is counted to a bound.
select source.name, source.tenant, source.received, source.polled_at, source.error, source.error_since, penstock.now() as now,
  (select count(*) from (select from penstock.inbox where inbox.source = source.name and state = 'waiting' limit :most::int) as few) as waiting,
  (select count(*) from (select from penstock.inbox where inbox.source = source.name and state = 'failed' limit :most::int) as few) as failed
from penstock.sources as source order by source.name
