-- name: make_stream
insert into penstock.streams (tenant, name) values (:tenant, :name)
on conflict (tenant, name) where deleted_at is null do nothing

-- name: lock_stream
-- Transactions that add or remove messages, or make memos of them, take turns here.
select id, last, done from penstock.streams
where tenant = :tenant and name = :name and deleted_at is null
for no key update

-- name: met_before
-- Which of these messages exist already, and whether with the same content.
select known.message_id, known.seq,
  (known.author, known.text, known.at) is not distinct from (came.author, came.text, came.at) as same
from unnest(:message_ids::text[], :authors::text[], :texts::text[], :times::timestamptz[]) as came(message_id, author, text, at)
join penstock.messages as known on known.stream_id = :stream and known.message_id = came.message_id

-- name: add_messages
insert into penstock.messages (tenant, stream_id, seq, message_id, author, text, at)
select :tenant, :stream::bigint, :last::bigint + turn, message_id, author, text, at
from unnest(:message_ids::text[], :authors::text[], :texts::text[], :times::timestamptz[]) with ordinality
  as came(message_id, author, text, at, turn)

-- name: note_posted
update penstock.streams
set last = last + :count, waits_since = coalesce(waits_since, penstock.now()), posted_at = penstock.now()
where id = :stream

-- name: list_streams
-- With the job that makes the next memos, if there is one: its key names the message after which it begins (`batch_key`).
select stream.id, stream.name, stream.last, stream.done, stream.waits_since, stream.created_at, stream.posted_at,
  job.id as job, job.state::text as job_state, job.error,
  (select count(*) from penstock.memos as memo where memo.stream_id = stream.id and memo.state = 'live') as memos
from penstock.streams as stream
left join penstock.job_keys as held on held.key = 'memo ' || stream.id || ' after ' || stream.done and stream.last > stream.done
left join penstock.jobs as job on job.id = held.job_id
where stream.tenant = :tenant and stream.deleted_at is null and stream.name > :after
  and (:name::text is null or stream.name = :name)
order by stream.name limit :most

-- name: why_unscheduled
-- The error of the schedule's job, mostly that no language model is configured.
select job.error ->> 'message' from penstock.schedules as schedule
join penstock.jobs as job on job.id = schedule.last_job
where schedule.name = 'memo.batch-check' and job.state in ('later', 'dead') and job.error is not null

-- name: streams_waiting
-- A page of streams with messages of which no memos have been made, the longest wait first; and whether they have a job.
-- Not `exists`: the planner may answer that by a hash of all keys.
select stream.id, stream.tenant, stream.done, stream.waits_since,
  (select job_id from penstock.job_keys where key = 'memo ' || stream.id || ' after ' || stream.done) is not null as ordered
from penstock.streams as stream
where stream.waits_since is not null and stream.deleted_at is null
  and (stream.waits_since, stream.id) > (coalesce(:since::timestamptz, '-infinity'), :after::bigint)
order by stream.waits_since, stream.id limit :most

-- name: list_messages
select seq as number, message_id, author, text, at, received_at from penstock.messages
where stream_id = :stream and seq > :after order by seq limit :most

-- -- deletion -------------------------------------------------------------------------------------------------------------

-- name: mark_deleted
-- From this commit on no query sees it, and no batch writes into it.
update penstock.streams set deleted_at = penstock.now()
where tenant = :tenant and name = :name and deleted_at is null
returning id

-- name: batch_of
-- The job of a deleted stream that would make its next memos: `done` does not change any more.
select held.job_id from penstock.streams as stream
join penstock.job_keys as held on held.key = 'memo ' || stream.id || ' after ' || stream.done
where stream.id = :stream and stream.deleted_at is not null

-- name: deleted_streams
select id, tenant from penstock.streams where deleted_at is not null order by id limit :most

-- name: remove_memos
-- Their messages and vectors go with them.
with batch as (
  select id from penstock.memos where stream_id = :stream limit :most
),
gone as (
  delete from penstock.memos where id = any (array(select id from batch)) returning id
)
select count(*) from gone

-- name: remove_messages
with batch as (
  select seq from penstock.messages where stream_id = :stream order by seq limit :most
),
gone as (
  delete from penstock.messages where stream_id = :stream and seq = any (array(select seq from batch)) returning seq
)
select count(*) from gone

-- name: remove_stream
delete from penstock.streams where id = :stream and deleted_at is not null

-- name: memos_of_message
select memo_id from penstock.memo_messages where stream_id = :stream and seq = :seq

-- name: remove_message
delete from penstock.messages where stream_id = :stream and seq = :seq returning seq

-- name: remove_unfounded
-- Those of these memos that have no message left.
delete from penstock.memos as memo
where id = any (:ids::bigint[]) and not exists (select from penstock.memo_messages as link where link.memo_id = memo.id)
returning id, coalesce(superseded_by, merged_into) as heir

-- name: inherit
-- superseded -> live, or superseded by the next one: the memo that had superseded them is deleted.
update penstock.memos as memo
set state = case when gone.heir is null then 'live' else 'superseded' end, superseded_by = gone.heir, changed_at = penstock.now()
from unnest(:gone::bigint[], :heirs::bigint[]) as gone(id, heir)
where memo.superseded_by = gone.id
