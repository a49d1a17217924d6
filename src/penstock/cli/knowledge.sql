-- name: count_alive
select count(*) from penstock.jobs where id = any (:jobs::bigint[]) and state <> 'dead'

-- name: count_dead
select count(*) from penstock.jobs where id = any (:jobs::bigint[]) and state = 'dead'

-- name: oldest_alive
-- A part that is asked about, before the version that waits for it.
select job.id from (
  select child.id, 0 as turn from penstock.fanouts as fanout join penstock.jobs as child on child.fanout = fanout.id
  where fanout.parent = any (:jobs::bigint[]) and child.state <> 'dead'
  union all
  select id, 1 from penstock.jobs where id = any (:jobs::bigint[]) and state <> 'dead'
) as job order by turn, id limit 1
