-- name: stream_of
select id, tenant, name, last, done from penstock.streams where id = :stream and deleted_at is null

-- name: next_messages
-- At most so many messages and characters, but at least one message. And the beginnings of some before them.
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
-- Compare and set: a job that began at another message was overtaken, and writes nothing. First in its transaction, so that no
-- other transaction changes the stream or its memos concurrently.
update penstock.streams
set done = :upto, waits_since = case when last > :upto then penstock.now() end
where id = :stream and done = :after and deleted_at is null
returning last

-- name: questions_of
-- The fan-outs of a batch: its questions.
select coalesce(array_agg(id), '{}') from penstock.fanouts where parent = :job

-- name: forget_questions
-- Questions and answers have parts of conversations: they are deleted as soon as memos have been made of them.
with under_way as (
  update penstock.jobs set args = '{}' where fanout = any (:fanouts::bigint[])
)
update penstock.job_history set args = '{}', result = null where fanout = any (:fanouts::bigint[])

-- name: is_asking
-- Whether a question of these fan-outs is under way: its answer would be stored when it arrives.
select exists (select from penstock.jobs where fanout = any (:fanouts::bigint[]) and state <> 'dead')
