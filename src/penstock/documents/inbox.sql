-- name: position
-- How far a source has been read; the first reader makes its row.
insert into penstock.sources (name, tenant) values (:source, :tenant)
on conflict (name) do update set tenant = excluded.tenant where sources.tenant <> excluded.tenant
returning turn

-- name: read_position
select position, turn, swept_at, sweep, penstock.now() - swept_at as swept_ago from penstock.sources where name = :source

-- name: advance
-- Compare and set: a worker that read the source at an older turn has been overtaken, and keeps nothing. First in its transaction,
-- so that of several concurrent ones one writes and the others wait for no more than that.
update penstock.sources set position = :position::json, turn = turn + 1
where name = :source and turn = :turn
returning turn

-- name: count
update penstock.sources
set received = received + :received, repeats = repeats + :repeats, conflicts = conflicts + :conflicts
where name = :source

-- name: receive
-- (new) -> waiting. What is there already is left as it is.
insert into penstock.inbox (id, tenant, source, message_id, digest, payload, job_id, told)
select came.id, :tenant, :source, came.message_id, came.digest, came.payload, came.job_id, :told
from unnest(:ids::bigint[], :jobs::bigint[], :message_ids::text[], :digests::bytea[], :payloads::json[])
  as came(id, job_id, message_id, digest, payload)
order by came.message_id
on conflict (source, message_id) do nothing
returning id

-- name: keep_bytes
insert into penstock.inbox_blobs (message, blob_id, tenant)
select message, blob_id, :tenant from unnest(:messages::bigint[], :blobs::bigint[]) as kept(message, blob_id)
on conflict do nothing

-- name: seen_before
select id, message_id, digest, state, job_id from penstock.inbox
where source = :source and message_id = any (:message_ids::text[])
order by id for update

-- name: note_repeats
update penstock.inbox set repeats = repeats + 1 where id = any (:ids::bigint[])

-- name: note_conflicts
update penstock.inbox set conflicts = conflicts + 1 where id = any (:ids::bigint[])

-- name: renew
-- taken, failed or waiting -> waiting, with other content.
update penstock.inbox as message
set number = message.number + 1, digest = came.digest, payload = came.payload, state = 'waiting', error = null, job_id = came.job_id,
  changed_at = penstock.now(), told = case when told = 'never' then told else '' end
from unnest(:ids::bigint[], :digests::bytea[], :payloads::json[], :jobs::bigint[]) as came(id, digest, payload, job_id)
where message.id = came.id

-- name: unknown
-- Those that never came.
select wanted.message_id from unnest(:message_ids::text[]) as wanted(message_id)
where not exists (
  select from penstock.inbox where inbox.source = :source and inbox.message_id = wanted.message_id
)

-- name: news
-- Those that never came or, unless their id alone counts, came with other content.
select came.message_id from unnest(:message_ids::text[], :digests::bytea[]) as came(message_id, digest)
where not exists (
  select from penstock.inbox
  where inbox.source = :source and inbox.message_id = came.message_id
    and (:by_id::boolean or inbox.digest = came.digest)
)

-- name: find_message
select id, state from penstock.inbox where source = :source and message_id = :message_id

-- name: known_below
-- What came from one place: the messages whose id begins so.
select message_id from penstock.inbox where source = :source and starts_with(message_id, :prefix)

-- name: waiting
select count(*) from (
  select from penstock.inbox where source = :source and state = 'waiting' limit :most
) as unsettled

-- name: note_poll
update penstock.sources set polled_at = penstock.now(), error = nullif(:finding::text, ''),
  error_since = case when :finding <> '' then coalesce(error_since, penstock.now()) end
where name = :source and (
  error is distinct from nullif(:finding, '') or polled_at is null or polled_at < penstock.now() - interval '2 seconds'
)

-- name: note_trouble
insert into penstock.sources (name, tenant, error, error_since) values (:source, :tenant, :error, penstock.now())
on conflict (name) do update set error = excluded.error, error_since = coalesce(sources.error_since, excluded.error_since)

-- name: note_sweep
update penstock.sources
set sweep = :sweep::json, swept_at = case when :complete::boolean then penstock.now() else swept_at end
where name = :source

-- name: load_message
select id, tenant, source, message_id, number, payload, state, job_id, document_id from penstock.inbox where id = :message

-- name: taken
-- waiting -> taken, by the job that has the present content. The payload is not needed any more.
update penstock.inbox
set state = 'taken', document_id = :document, payload = null, error = null, changed_at = penstock.now()
where id = :message and number = :number
returning id

-- name: outrun_by
-- A later message of the same source has become this document already.
select job_id from penstock.inbox
where document_id = :document and source = :source and state = 'taken' and job_id > :job limit 1

-- name: let_go
-- Its bytes belong to a document now.
delete from penstock.inbox_blobs where message = :message

-- name: bytes_of
-- Of the blobs that came with a message, the one with this digest.
select blob.key, blob.digest, blob.size from penstock.inbox_blobs
join penstock.blobs as blob on blob.id = inbox_blobs.blob_id
where inbox_blobs.message = :message and blob.digest = :digest and blob.state = 'kept'

-- name: list_unreported
-- Messages whose outcome was not reported to their source, or another outcome, or a failure with another reason.
select message.id, message.message_id, message.told, coalesce(fate.status, '') as status, fate.error,
  md5(fate.error ->> 'message') as reason
from penstock.inbox as message
left join penstock.documents as document on document.id = message.document_id
cross join lateral (
  select case
    when message.state = 'failed' or document.state = 'failed' then 'failed'
    when message.state = 'taken' and document.state = 'ready' then 'ready'
  end as status,
  case when message.state = 'failed' then message.error else document.error end as error
) as fate
where message.source = :source and message.told in ('', 'failed') and message.id > :after
  and fate.status is not null
  and (fate.status <> message.told or message.told_reason is distinct from md5(fate.error ->> 'message'))
order by message.id limit :most

-- name: note_reported
update penstock.inbox as message set told = heard.status, told_reason = heard.reason
from unnest(:ids::bigint[], :statuses::text[], :reasons::text[]) as heard(id, status, reason)
where message.id = heard.id

-- name: list_sources
select source.name, source.tenant, source.position, source.received, source.repeats, source.conflicts, source.polled_at,
  source.swept_at, source.error, source.error_since,
  (select count(*) from (select from penstock.inbox where inbox.source = source.name and state = 'waiting' limit 100000) as few) as waiting,
  (select count(*) from (select from penstock.inbox where inbox.source = source.name and state = 'failed' limit 100000) as few) as failed
from penstock.sources as source where source.tenant = :tenant order by source.name

-- name: count_messages
-- Of each of these sources, to 100,000: brokers and webhooks have no row that every message would have to change.
select asked.name, few.received, few.waiting, few.failed
from unnest(:sources::text[]) as asked(name)
cross join lateral (
  select count(*) as received, count(*) filter (where state = 'waiting') as waiting, count(*) filter (where state = 'failed') as failed
  from (select state from penstock.inbox where source = asked.name and tenant = :tenant limit 100000) as message
) as few

-- name: list_messages
select id, source, message_id, number, state, job_id, document_id, error, repeats, conflicts, received_at, changed_at
from penstock.inbox
where tenant = :tenant and id > :after and (:source::text is null or source = :source)
  and (:state::text is null or state = :state)
order by id limit :most

-- name: show_message
select id, source, message_id, number, state, job_id, document_id, error, repeats, conflicts, received_at, changed_at
from penstock.inbox where id = :message and tenant = :tenant

-- name: match_message
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
