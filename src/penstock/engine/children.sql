-- Locks are taken in one order, everywhere: children, then fan-outs by id, then parents. A child's id is larger
-- than its parent's, so a tree of jobs is locked from the largest id down.

-- name: count_up
-- Children that run again are unfinished again.
with again as (
  select * from unnest(:ids::bigint[], :counts::int[]) as again(id, count)
),
locked as materialized (
  select fanout.id from penstock.fanouts as fanout join again on again.id = fanout.id
  order by fanout.id for update of fanout
)
update penstock.fanouts as fanout set unfinished = fanout.unfinished + again.count
from again join locked on locked.id = again.id
where fanout.id = again.id

-- name: count_down
-- In the order of their ids, so that two settlers with children of the same parents do not wait in a circle.
with ended as (
  select * from unnest(:ids::bigint[], :counts::int[]) as ended(id, count)
),
locked as materialized (
  select fanout.id from penstock.fanouts as fanout join ended on ended.id = fanout.id
  order by fanout.id for update of fanout
)
update penstock.fanouts as fanout set unfinished = fanout.unfinished - ended.count
from ended join locked on locked.id = ended.id
where fanout.id = ended.id
returning fanout.id, fanout.unfinished, fanout.at_once

-- name: wake_parents
-- waiting -> ready, for those whose last child has ended.
with over as (
  select id from penstock.jobs
  where state = 'waiting' and waits_for = any (:fanouts::bigint[]) and fanout is distinct from waits_for
  order by id for update
)
update penstock.jobs set state = 'ready', waits_for = null
where id = any (array(select id from over))
returning lane

-- name: release_held
-- waiting -> ready, for the next children, as many as have ended.
with next as (
  select id from penstock.jobs
  where state = 'waiting' and waits_for = :fanout and fanout = waits_for
  order by id limit :count for update
)
update penstock.jobs set state = 'ready', waits_for = null
where id = any (array(select id from next))
returning lane

-- name: tree_of
-- These jobs and all that descends from them, with the parent of each child. From the largest id down: see above.
with recursive tree as (
  select id, fanout from penstock.jobs where id = any (:ids::bigint[])
  union
  select child.id, child.fanout
  from tree
  join penstock.fanouts as fanout on fanout.parent = tree.id
  join penstock.jobs as child on child.fanout = fanout.id
)
select tree.id, tree.fanout, fanout.parent
from tree left join penstock.fanouts as fanout on fanout.id = tree.fanout

-- name: lock_jobs
select id from penstock.jobs where id = any (:ids::bigint[]) order by id desc for update

-- name: parents_alive
-- The parents of dead children, and whether they are alive.
select child.id, child.fanout, fanout.parent, parent.id is not null as parent_alive
from penstock.jobs as child
left join penstock.fanouts as fanout on fanout.id = child.fanout
left join penstock.jobs as parent on parent.id = fanout.parent
where child.id = any (:ids::bigint[]) and child.fanout is not null

-- name: forget_cancelled_children
-- A parent that is redriven makes those children again that were cancelled or discarded.
update penstock.job_history as past set fanout = null, turn = null
from penstock.fanouts as fanout
where fanout.parent = any (:parents::bigint[]) and past.fanout = fanout.id and past.outcome <> 'done'

-- name: sweep_fanouts
-- Of parents that are over.
with over as (
  select id from penstock.fanouts
  where not exists (select from penstock.jobs where jobs.id = fanouts.parent)
  limit :batch for update skip locked
)
delete from penstock.fanouts where id = any (array(select id from over))

-- name: orphans
-- Children whose parent is over, and that are not dead: their results are not needed any more.
select id from penstock.jobs
where fanout is not null and state <> 'dead' and not cancelling
  and not exists (select from penstock.fanouts where fanouts.id = jobs.fanout)
limit :batch

-- name: doubtful_fanouts
-- Fan-outs that wait for a child although none is there. It cannot happen; a parent must not wait for ever if it does.
select id from penstock.fanouts
where unfinished > 0 and not exists (select from penstock.jobs where jobs.fanout = fanouts.id and state <> 'dead')
limit :batch for update skip locked

-- name: recount_fanouts
update penstock.fanouts as fanout
set unfinished = (select count(*) from penstock.jobs where jobs.fanout = fanout.id and state <> 'dead')
where id = any (:ids::bigint[])
returning id, unfinished

-- name: find_fanout
select id, digest, code, total, unfinished from penstock.fanouts where parent = :parent and name = :name

-- name: drop_fanout
-- After a deploy that makes other calls: what the old ones still do is cancelled by the sweep.
delete from penstock.fanouts where parent = :parent and name = :name and digest <> :digest

-- name: open_fanout
insert into penstock.fanouts (parent, name, digest, code, total, unfinished, at_once)
values (:parent, :name, :digest, :code, :total, :total, :at_once)
on conflict (parent, name) do nothing
returning id

-- name: insert_children
-- (new) -> ready, or waiting for a turn when only so many may run at once.
insert into penstock.jobs (lane, priority, args, state, fanout, turn, waits_for)
select lane, :priority, args,
  case when :at_once::int is null or turn < :at_once then 'ready' else 'waiting' end::penstock.job_state,
  :fanout, turn,
  case when turn >= :at_once::int then :fanout::bigint end
from unnest(:lanes::int[], :args::json[], :turns::int[]) as call(lane, args, turn)
order by turn

-- name: wait_for_children
-- running -> waiting. The fence of the parent: a stale attempt writes nothing, nor does one that is being cancelled.
update penstock.jobs
set state = 'waiting', waits_for = :fanout, worker_id = null, claimed_at = null, quarantined = false, deaths = 0,
  attempts = attempts
    || row(attempt, worker_id, claimed_at, :seconds::real, 'waits', null)::penstock.attempt
where id = :id and attempt = :attempt and worker_id = :worker_id and not cancelling
returning id

-- name: lock_fanout
-- Before a parent waits again: no other transaction may count down to zero in between.
select unfinished from penstock.fanouts where id = :id for update

-- name: is_cancelling
select cancelling from penstock.jobs where id = :id and attempt = :attempt and worker_id = :worker_id

-- name: ended_children
-- How each child has ended: in the history, or dead.
select turn, id, outcome as state, result, error from penstock.job_history where fanout = :fanout
union all
select turn, id, state::text, null, error from penstock.jobs where fanout = :fanout

-- name: reopen_fanout
update penstock.fanouts set unfinished = unfinished + :count where id = :id
