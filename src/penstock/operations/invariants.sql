-- Conditions that hold for all committed rows, at every moment: each statement returns a row for each violation. In production a
-- schedule runs them in pages (:ids are the ids of one page), the tests run them over everything. One statement is one snapshot:
-- a transaction is seen before or after, never half. What may be late by design has a grace of minutes.

-- -- pages ---------------------------------------------------------------------------------------------------------------

-- name: page_jobs
select id from penstock.jobs where id > :after order by id limit :most

-- name: page_history
select id from penstock.job_history where id > :after order by id limit :most

-- name: page_fanouts
select id from penstock.fanouts where id > :after order by id limit :most

-- name: page_keys
-- Keys that are held, in the order of the key, which is text; only one without a job is a subject. Not `exists`: the planner may
-- answer that by a hash of all jobs.
select key as last, job_id as id, (select jobs.id from penstock.jobs where jobs.id = job_keys.job_id) is null as wrong
from penstock.job_keys where key > :after and until is null order by key limit :most

-- name: page_queued
select id from penstock.documents where state = 'queued' and id > :after order by id limit :most

-- name: page_documents
select id from penstock.documents where id > :after order by id limit :most

-- name: page_live
-- Up to so many chunks: some documents have ten, others ten thousand.
select id from (
  select live_id as id, coalesce(sum(chunks) over (order by live_id rows between unbounded preceding and 1 preceding), 0) as before
  from (
    select live_id, (select chunks from penstock.versions where versions.id = documents.live_id) as chunks
    from penstock.documents where live_id > :after order by live_id limit :most
  ) as live
) as page where before < :chunks order by id

-- name: page_streams
select id from penstock.streams where deleted_at is null and id > :after order by id limit :most

-- name: page_memos
select id from penstock.memos where id > :after order by id limit :most

-- name: page_versions
select id from penstock.versions where id > :after order by id limit :most

-- name: page_events
select id from penstock.events where id > :after order by id limit :most

-- name: page_packets
select version_id as id from penstock.packets where version_id > :after order by version_id limit :most

-- name: page_inbox
select id from penstock.inbox where id > :after order by id limit :most

-- name: page_facts
select id from penstock.facts where id > :after order by id limit :most

-- name: page_entities
select id from penstock.entities where id > :after order by id limit :most

-- name: page_extractions
select id from penstock.extractions where id > :after order by id limit :most

-- -- jobs ----------------------------------------------------------------------------------------------------------------

-- name: job_is_alive_or_over
select job.id as subject, null::bigint as document, format('Job %s is alive and in the history.', job.id) as said
from penstock.jobs as job
where job.id = any (:ids::bigint[]) and exists (select from penstock.job_history as past where past.id = job.id)

-- name: job_ends_once
select past.id as subject, null::bigint as document, format('Job %s is in the history %s times.', past.id, count(*)) as said
from penstock.job_history as past where past.id = any (:ids::bigint[])
group by past.id having count(*) > 1

-- name: running_has_an_owner
-- Other workers rescue the jobs of one that is gone, as soon as there are some.
select job.id as subject, null::bigint as document,
  case when worker.id is null then format('Job %s is running, and worker %s does not exist.', job.id, job.worker_id)
    else format('Job %s is running on worker %s, which is gone since %s, and was not rescued.', job.id, worker.name, worker.gone_at)
  end as said
from penstock.jobs as job left join penstock.workers as worker on worker.id = job.worker_id
where job.id = any (:ids::bigint[]) and job.state = 'running' and (
  worker.id is null
  or worker.gone_at < penstock.now() - interval '5 minutes' and exists (
    select from penstock.workers as other
    where other.gone_at is null and other.heartbeat_at + other.lease >= penstock.now()
      and other.started_at < penstock.now() - interval '5 minutes'
  )
)

-- name: later_has_a_due_time
-- A constraint ensures that it has one; every worker makes due jobs ready.
select job.id as subject, null::bigint as document, format('Job %s was due at %s, and was not made ready.', job.id, job.run_at) as said
from penstock.jobs as job
where job.id = any (:ids::bigint[]) and job.state = 'later' and job.run_at < penstock.now() - interval '5 minutes' and exists (
  select from penstock.workers as worker
  where worker.gone_at is null and worker.heartbeat_at + worker.lease >= penstock.now()
    and worker.started_at < penstock.now() - interval '5 minutes'
)

-- name: waiting_has_a_blocker
select job.id as subject, null::bigint as document,
  format('Job %s waits for fan-out %s, of which no job is left.', job.id, job.waits_for) as said
from penstock.jobs as job left join penstock.fanouts as family on family.id = job.waits_for
where job.id = any (:ids::bigint[]) and job.state = 'waiting' and case
  when job.fanout is distinct from job.waits_for then coalesce(family.unfinished, 0) = 0  -- a parent
  else family.id is null  -- a child whose turn has not come
end

-- name: ready_has_a_lane
select job.id as subject, null::bigint as document, format('Job %s is in lane %s, which does not exist: no claim finds it.', job.id, job.lane) as said
from penstock.jobs as job
where job.id = any (:ids::bigint[]) and not exists (select from penstock.lanes where lanes.id = job.lane)

-- name: live_attempts_are_counted
-- Except a dead letter whose document was removed: its tries are removed with it.
select job.id as subject, null::bigint as document,
  format('Job %s has %s ended tries and the number %s.', job.id, cardinality(job.attempts), job.attempt) as said
from penstock.jobs as job
where job.id = any (:ids::bigint[]) and cardinality(job.attempts) <> job.attempt - (job.state = 'running')::int
  and not (job.state = 'dead' and cardinality(job.attempts) = 0)

-- name: past_attempts_are_counted
-- Except a job whose document was removed, as above.
select past.id as subject, null::bigint as document,
  format('Job %s has %s ended tries and the number %s.', past.id, cardinality(past.attempts), past.attempt) as said
from penstock.job_history as past
where past.id = any (:ids::bigint[]) and cardinality(past.attempts) not in (0, past.attempt)

-- name: only_the_last_attempt_counts
-- A stale attempt has no effect: what is done was done once, by the newest attempt.
select past.id as subject, null::bigint as document,
  format('Job %s is done by attempt %s, and its tries are: %s.', past.id, past.attempt, tries.outcomes) as said
from penstock.job_history as past
cross join lateral (
  select count(*) filter (where outcome = 'done') as done, max(number) filter (where outcome = 'done') as by,
    string_agg(format('%s %s', number, outcome), ', ' order by number) as outcomes
  from unnest(past.attempts)
) as tries
where past.id = any (:ids::bigint[]) and past.outcome = 'done' and cardinality(past.attempts) > 0 and (tries.done <> 1 or tries.by <> past.attempt)

-- name: unique_job_has_its_key
select job.id as subject, null::bigint as document, format('Job %s is alive without its key %s.', job.id, job.unique_key) as said
from penstock.jobs as job
where job.id = any (:ids::bigint[]) and job.unique_key is not null and not exists (
  select from penstock.job_keys where key = job.unique_key and job_id = job.id and until is null
)

-- name: key_has_its_job
select held.job_id as subject, null::bigint as document, format('The key %s is held by job %s, which is over.', held.key, held.job_id) as said
from penstock.job_keys as held
where held.job_id = any (:ids::bigint[]) and held.until is null
  and not exists (select from penstock.jobs where jobs.id = held.job_id)

-- name: children_are_counted
-- The unfinished children of a fan-out are those that are alive and not dead, as long as its parent wants them.
select family.id as subject, null::bigint as document,
  format('Fan-out %s counts %s unfinished children, and there are %s.', family.id, family.unfinished, alive.times) as said
from penstock.fanouts as family join penstock.jobs as parent on parent.id = family.parent and not parent.cancelling
cross join lateral (
  select count(*) as times from penstock.jobs where jobs.fanout = family.id and jobs.state <> 'dead'
) as alive
where family.id = any (:ids::bigint[]) and family.unfinished <> alive.times

-- -- the fleet: small tables, checked as a whole -------------------------------------------------------------------------

-- name: permits_are_within_the_limit
select hashtext(bound.name)::bigint as subject, null::bigint as document,
  format('Limit %s has given %s permits of %s.', bound.name, sum(part.granted), bound.permits) as said
from penstock.limits as bound join penstock.allotments as part on part.limit_name = bound.name
join penstock.workers as worker on worker.id = part.worker_id and worker.gone_at is null
group by bound.name, bound.permits having sum(part.granted) > bound.permits

-- name: schedules_are_unique
-- Under one name there is one, by the key of the table; here are those that do the same under several.
select min(hashtext(schedule.name || ' ' || schedule.fairness_key))::bigint as subject, null::bigint as document,
  format('The schedules %s of the fairness key %s do the same: %s by the rule %s.', string_agg(schedule.name, ', ' order by schedule.name),
    schedule.fairness_key, schedule.kind, schedule.rule) as said
from penstock.schedules as schedule where schedule.retired_at is null and schedule.paused_at is null
group by schedule.fairness_key, schedule.kind, schedule.queue, schedule.rule, schedule.timezone, schedule.args::text having count(*) > 1

-- name: connections_are_within_the_budget
select 1::bigint as subject, null::bigint as document,
  format('%s workers may open %s connections, and the server has %s.', fleet.workers, fleet.connections, server.connections) as said
from (
  select count(*) as workers, coalesce(sum(connections), 0) as connections from penstock.workers where gone_at is null
) as fleet
cross join (
  select current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int as connections
) as server
where fleet.connections > server.connections

-- -- documents -----------------------------------------------------------------------------------------------------------

-- name: queued_document_has_a_job
-- A handler may end without publishing; reconciling ends that within a minute or two.
select document.id as subject, document.id as document,
  format('Document %s (%s) is queued, and its job %s is over.', document.id, document.name, document.job_id) as said
from penstock.documents as document
where document.id = any (:ids::bigint[]) and document.state = 'queued' and document.changed_at < penstock.now() - interval '5 minutes'
  and not exists (select from penstock.jobs as job where job.id = document.job_id and job.state <> 'dead')

-- name: live_version_is_indexed
select document.live_id as subject, document.id as document,
  format('Document %s (%s) has %s chunks: %s rows of them, %s in the postings%s.', document.id, document.name, coalesce(version.chunks, 0),
    found.chunks, found.indexed, case when found.hidden then ', and is hidden' else '' end) as said
from penstock.documents as document
join penstock.versions as version on version.id = document.live_id
cross join lateral (
  select (select count(*) from penstock.chunks where chunks.version_id = version.id) as chunks,
    (select coalesce(sum(batch.chunks), 0) from penstock.indexed_batches as batch where batch.version_id = version.id) as indexed,
    (select hidden.version_id from penstock.hidden_versions as hidden where hidden.version_id = version.id) is not null as hidden
) as found
where document.live_id = any (:ids::bigint[]) and (
  version.prepared_at is null or found.hidden
  or (coalesce(version.chunks, 0), coalesce(version.chunks, 0)) is distinct from (found.chunks, found.indexed)
)

-- name: live_version_is_embedded
-- For each model: invariants.py puts the names of its tables in place of `vectors_model` and `folded_model`.
select document.live_id as subject, document.id as document,
  format('Document %s (%s) has %s chunks and %s vectors of the model %s.', document.id, document.name, coalesce(version.chunks, 0),
    found.vectors, collection.model) as said
from penstock.documents as document
join penstock.versions as version on version.id = document.live_id
join penstock.collections as collection on collection.id = document.collection_id and collection.model = :model
cross join lateral (
  select (
    select count(*) from penstock.vectors_model as vector
    where vector.collection_id = collection.id and vector.version_id = version.id
  ) + (
    select count(*) from penstock.folded_model as vector
    where vector.collection_id = collection.id and vector.version_id = version.id
  ) as vectors
) as found
where document.live_id = any (:ids::bigint[]) and found.vectors <> coalesce(version.chunks, 0)

-- name: version_has_its_bytes
-- The check `blobs` of documents verifies that the bytes themselves are in the store.
select version.id as subject, version.document_id as document,
  format('Version %s of document %s names bytes that are being removed.', version.number, version.document_id) as said
from penstock.versions as version
where version.id = any (:ids::bigint[]) and version.dead_at is null
  and not exists (select from penstock.blobs as blob where blob.id = version.blob_id and blob.state = 'kept')

-- name: accepted_document_is_somewhere
-- accepted = ready + failed + deleted + in flight: whatever was accepted is a document, and none is forgotten.
select event.id as subject, event.document_id as document,
  format('Document %s was accepted at %s, and is neither there nor removed with a receipt.', event.document_id, event.at) as said
from penstock.events as event
where event.id = any (:ids::bigint[]) and event.event = 'accepted'
  and not exists (select from penstock.documents where documents.id = event.document_id)
  and not exists (select from penstock.receipts where receipts.document_id = event.document_id)

-- name: deleted_document_is_in_line
select document.id as subject, document.id as document,
  format('Document %s (%s) was deleted, and %s.', document.id, document.name,
    case when removal.document_id is null then 'neither waits for its removal nor has a receipt'
      else 'waits for its removal although it has a receipt' end) as said
from penstock.documents as document
left join penstock.removals as removal on removal.document_id = document.id
left join penstock.receipts as receipt on receipt.document_id = document.id
where document.id = any (:ids::bigint[]) and document.state = 'deleted'
  and (removal.document_id is null) = (receipt.document_id is null)

-- name: members_follow_their_packet
-- They belong to it, are over when it is, and go with it; what a deletion leaves behind, reconciling ends within minutes.
select packet.version_id as subject, packet.document_id as document,
  format('Packet %s is %s, and its member %s (%s) is %s%s.', packet.document_id, whole.state, member.id, member.name, member.state,
    case when member.parent_id is distinct from packet.document_id then ', and belongs to something else' else '' end) as said
from penstock.packets as packet
join penstock.documents as whole on whole.id = packet.document_id and packet.version_id in (whole.version_id, whole.live_id)
join penstock.packet_documents as sourced on sourced.version_id = packet.version_id
join penstock.documents as member on member.id = sourced.member_id
where packet.version_id = any (:ids::bigint[]) and (
  member.parent_id is distinct from packet.document_id
  or whole.state = 'ready' and packet.version_id = whole.live_id and member.state = 'queued' and member.version_id = sourced.member_version
  or whole.state = 'deleted' and member.state <> 'deleted' and whole.deleted_at < penstock.now() - interval '15 minutes'
)

-- name: taken_message_has_its_document
select message.id as subject, message.document_id as document,
  format('Message %s (%s of %s) was taken as document %s, which does not exist.', message.id, message.message_id, message.source,
    message.document_id) as said
from penstock.inbox as message
where message.id = any (:ids::bigint[]) and message.state = 'taken' and message.document_id is not null
  and not exists (select from penstock.documents where documents.id = message.document_id)

-- name: waiting_message_has_a_job
select message.id as subject, null::bigint as document,
  format('Message %s (%s of %s) waits, and its job %s is over.', message.id, message.message_id, message.source, message.job_id) as said
from penstock.inbox as message
where message.id = any (:ids::bigint[]) and message.state = 'waiting'
  and not exists (select from penstock.jobs as job where job.id = message.job_id and job.state <> 'dead')

-- name: live_memo_has_messages
-- Its messages are those of its own stream.
select memo.id as subject, null::bigint as document,
  format('Memo %s is %s, and no message of its stream is left that it was made of.', memo.id, memo.state) as said
from penstock.memos as memo
where memo.id = any (:ids::bigint[]) and memo.state = 'live' and not exists (
  select from penstock.memo_messages as link
  join penstock.messages as message on message.stream_id = link.stream_id and message.seq = link.seq
  where link.memo_id = memo.id and link.stream_id = memo.stream_id
)

-- name: replaced_memo_has_its_successor
-- While a deleted stream is removed in batches, one of them may be gone before the other.
select memo.id as subject, null::bigint as document,
  format('Memo %s is %s memo %s, which is not there.', memo.id,
    case memo.state when 'merged' then 'merged into' else 'superseded by' end, coalesce(memo.superseded_by, memo.merged_into)) as said
from penstock.memos as memo join penstock.streams as stream on stream.id = memo.stream_id and stream.deleted_at is null
where memo.id = any (:ids::bigint[]) and memo.state <> 'live' and not exists (
  select from penstock.memos as other
  where other.id = coalesce(memo.superseded_by, memo.merged_into) and other.stream_id = memo.stream_id
)

-- name: stream_counts_its_messages
select stream.id as subject, null::bigint as document,
  format('Stream %s (%s) is done up to message %s and counts %s, and its newest is %s.', stream.id, stream.name, stream.done, stream.last,
    coalesce(newest.seq, 0)) as said
from penstock.streams as stream
left join lateral (
  select seq from penstock.messages where stream_id = stream.id order by seq desc limit 1
) as newest on true
where stream.id = any (:ids::bigint[]) and (stream.done > stream.last or newest.seq > stream.last)

-- -- facts ---------------------------------------------------------------------------------------------------------------

-- name: fact_stands_in_its_page
-- No fact without its source: what can be found is in the text of its version, to the letter.
select fact.id as subject, document.id as document,
  format('Fact %s of document %s (%s) does not stand on page %s from %s to %s.', fact.id, document.id, document.name, fact.page, fact.start,
    fact.stop) as said
from penstock.facts as fact
join penstock.extractions as extraction on extraction.id = fact.extraction_id and extraction.state = 'current'
join penstock.documents as document on document.id = extraction.document_id and document.live_id = fact.version_id
left join penstock.pages as page on page.version_id = fact.version_id and page.number = fact.page
where fact.id = any (:ids::bigint[]) and substr(page.text, fact.start + 1, fact.stop - fact.start) is distinct from fact.quote

-- name: fact_is_embedded
-- For each model: invariants.py puts the name of its table in place of `facts_near_model`.
select fact.id as subject, extraction.document_id as document,
  format('Fact %s of document %s has no vector of the model %s.', fact.id, extraction.document_id, extraction.embedder) as said
from penstock.facts as fact
join penstock.extractions as extraction on extraction.id = fact.extraction_id and extraction.state = 'current' and extraction.embedder = :model
left join penstock.facts_near_model as vector on vector.id = fact.id
where fact.id = any (:ids::bigint[]) and vector.id is null

-- name: entity_is_mentioned
select entity.id as subject, null::bigint as document, format('Entity %s (%s, %s) is mentioned by no fact.', entity.id, entity.name, entity.type) as said
from penstock.entities as entity
where entity.id = any (:ids::bigint[]) and not exists (select from penstock.mentions where mentions.entity_id = entity.id)

-- name: facts_are_of_the_live_version
-- Those of a deleted document stay until it is removed: it may be restored.
select extraction.id as subject, extraction.document_id as document,
  format('The facts of document %s (%s) are of version %s, and search sees version %s.', document.id, document.name, extraction.version_id,
    document.live_id) as said
from penstock.extractions as extraction
join penstock.documents as document on document.id = extraction.document_id and document.state <> 'deleted'
where extraction.id = any (:ids::bigint[]) and extraction.state = 'current' and extraction.version_id is distinct from document.live_id
-- -- another index ---------------------------------------------------------------------------------------------------------

-- name: unpublished_is_not_live
-- Its findings go in the transaction that publishes it.
select waiting.version_id as subject, waiting.document_id as document,
  format('Version %s of document %s is live, and waits for its vectors in Qdrant.', waiting.version_id, waiting.document_id) as said
from penstock.unpublished as waiting join penstock.documents as document on document.id = waiting.document_id
where document.live_id = waiting.version_id

-- name: leaving_points_are_unseen
select leaving.version_id as subject, document.id as document,
  format('The vectors of version %s are to be removed, and search finds document %s by them.', leaving.version_id, document.id) as said
from penstock.leaving_points as leaving join penstock.documents as document on document.live_id = leaving.version_id

-- -- for doctor and the metrics ------------------------------------------------------------------------------------------

-- name: count_violations
select known.name, known.looked_at, known.round, (
    select count(*) from penstock.findings where check_name = known.name and ended_at is null
  ) as violations
from penstock.checks as known where starts_with(known.name, 'invariant-') order by known.name

-- name: models
select distinct model from penstock.collections where deleted_at is null order by model
