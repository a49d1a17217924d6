-- `RowVectors.named` replaces `near_table` and `vector_schema`.

-- name: nearest_live
-- For each of these vectors the nearest live memos of one stream.
select asked.turn::int - 1 as place, near.id, near.text, near.cosine
from unnest(:asked::text[]) with ordinality as asked(vector, turn)
cross join lateral (
  select memo.id, memo.text, -(known.embedding operator(vector_schema.<#>) asked.vector::vector_schema.halfvec) as cosine
  from penstock.near_table as known join penstock.memos as memo on memo.id = known.id and memo.state = 'live'
  where known.group_id = :stream
  order by cosine desc, memo.id limit :most::int  -- not by the operator: an index of all streams would miss some of this one
) as near
where near.cosine >= :alike::float8
order by asked.turn, near.cosine desc

-- name: live_memos
select id from penstock.memos where id = any (:ids::bigint[]) and state = 'live'

-- name: what_is_left
-- Of these messages and memos, those that still exist and are live, and ids for new ones. The lock of the stream is held, so
-- that none of it changes.
select
  array(select seq from penstock.messages where stream_id = :stream and seq = any (:messages::bigint[])) as messages,
  array(select id from penstock.memos where id = any (:memos::bigint[]) and state = 'live') as memos,
  array(select nextval(pg_get_serial_sequence('penstock.memos', 'id')) from generate_series(1, :count::int)) as ids

-- name: add_memos
insert into penstock.memos
  (id, tenant, stream_id, text, kind, confidence, state, merged_into, superseded_by, words, llm, job_id)
overriding system value
select new.id, :tenant, :stream, new.text, new.kind, new.confidence,
  case when new.merged_into is not null then 'merged' when new.superseded_by is not null then 'superseded' else 'live' end,
  new.merged_into, new.superseded_by, to_tsvector(:language::text::regconfig, new.text), :llm, :job
from unnest(:ids::bigint[], :texts::text[], :kinds::text[], :confidences::real[], :merged::bigint[], :superseded::bigint[])
  as new(id, text, kind, confidence, merged_into, superseded_by)

-- name: supersede
-- live -> superseded
update penstock.memos as memo set state = 'superseded', superseded_by = told.by, changed_at = penstock.now()
from unnest(:ids::bigint[], :bys::bigint[]) as told(id, by)
where memo.id = told.id and memo.state = 'live'

-- name: link
insert into penstock.memo_messages (memo_id, seq, stream_id, tenant)
select memo, seq, :stream::bigint, :tenant from unnest(:memos::bigint[], :numbers::bigint[]) as told(memo, seq)
on conflict do nothing

-- -- asking ---------------------------------------------------------------------------------------------------------------

-- name: find_words
-- Any of the words counts. The text of a query that asks for all of them has & between words, and nothing else.
select memo.id
from (select replace(plainto_tsquery(:language::text::regconfig, :question)::text, ' & ', ' | ')::tsquery as words) as asked
join penstock.memos as memo on memo.words @@ asked.words
where memo.tenant = :tenant and (:stream::bigint is null or memo.stream_id = :stream) and (:every::boolean or memo.state = 'live')
order by ts_rank(memo.words, asked.words, 1) desc, memo.id desc limit :most

-- name: recent_streams
select id from penstock.streams where tenant = :tenant and deleted_at is null order by posted_at desc nulls last limit :most

-- name: list_memos
select memo.id from penstock.memos as memo join penstock.streams as stream on stream.id = memo.stream_id and stream.deleted_at is null
where memo.tenant = :tenant and memo.id > :after and (:stream::bigint is null or memo.stream_id = :stream)
  and (:every::boolean or memo.state = 'live')
order by memo.id limit :most

-- name: show_memos
select memo.id, stream.name as stream, memo.text, memo.kind, memo.confidence, memo.state, memo.merged_into, memo.superseded_by,
  memo.llm, memo.created_at, memo.changed_at
from penstock.memos as memo join penstock.streams as stream on stream.id = memo.stream_id and stream.deleted_at is null
where memo.id = any (:ids::bigint[]) and memo.tenant = :tenant and (:every::boolean or memo.state = 'live')

-- name: messages_of
select link.memo_id, message.seq, message.message_id, message.author, message.at, left(message.text, :length::int) as text
from penstock.memo_messages as link
join penstock.messages as message on message.stream_id = link.stream_id and message.seq = link.seq
where link.memo_id = any (:ids::bigint[])
order by link.memo_id, message.seq
