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
set state = 'waiting', waits_for = :fanout, worker_id = null, claimed_at = null, suspect = false, deaths = 0,
  attempts = attempts
    || row(attempt, worker_id, claimed_at, :seconds::real, 'waits', null)::penstock.attempt
where id = :id and attempt = :attempt and worker_id = :worker_id and not cancelling
returning id

-- name: lock_fanout
-- Before a parent waits again: nobody may count down to zero in between.
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
