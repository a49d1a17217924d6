-- name: stream_of
select id, tenant, name, last, done from penstock.streams where id = :stream and deleted_at is null

-- name: next_messages
-- Up to so many, and up to so many characters; the first one however long it is. And the beginnings of some before them.
select seq, author, text, at, received_at, false as earlier
from (
  select *, sum(length(text)) over (order by seq) as so_far, row_number() over (order by seq) as turn
  from (
    select seq, author, text, at, received_at from penstock.messages
    where stream_id = :stream and seq > :after order by seq limit :most
  ) as next
) as counted
where turn = 1 or so_far <= :characters
union all
(
  select seq, author, left(text, :length::int), at, received_at, true from penstock.messages
  where stream_id = :stream and seq <= :after order by seq desc limit :before
)
order by seq

-- name: advance
-- Compare and set: whoever began at another message has been overtaken, and writes nothing. First in its transaction, so that
-- nobody changes the stream or its memos meanwhile.
update penstock.streams
set done = :upto, waits_since = case when last > :upto then penstock.now() end
where id = :stream and done = :after and deleted_at is null
returning last

-- name: questions_of
-- The fan-outs of a batch: what it has asked.
select coalesce(array_agg(id), '{}') from penstock.fanouts where parent = :job

-- name: forget_questions
-- What the model was asked and has answered is a conversation: it is kept until memos have been made of it, and no longer.
with under_way as (
  update penstock.jobs set args = '{}' where fanout = any (:fanouts::bigint[])
)
update penstock.job_history set args = '{}', result = null where fanout = any (:fanouts::bigint[])

-- name: is_asking
-- Whether a question of these fan-outs is under way: its answer would be kept when it comes.
select exists (select from penstock.jobs where fanout = any (:fanouts::bigint[]) and state <> 'dead')
