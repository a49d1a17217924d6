-- name: take_turn
-- Reserves the next time at which the host may be requested, and moves it on. No row: that time is too far away.
insert into penstock.hosts as host (origin, next_at) values (:origin, penstock.now() + :delay::interval)
on conflict (origin) do update set next_at = greatest(host.next_at, penstock.now()) + :delay::interval
  where host.next_at <= penstock.now() + :patience::interval
returning next_at - :delay::interval - penstock.now() as wait

-- name: hold_off
-- A host that asks for a pause gets it from all workers.
insert into penstock.hosts as host (origin, next_at) values (:origin, penstock.now() + :pause::interval)
on conflict (origin) do update set next_at = greatest(host.next_at, excluded.next_at)

-- name: find_next_turn
select next_at - penstock.now() as wait from penstock.hosts where origin = :origin

-- name: find_robots
select robots, robots_at, robots_at > penstock.now() - :fresh_for::interval as fresh
from penstock.hosts where origin = :origin and robots_at > penstock.now() - :good_for::interval

-- name: keep_robots
insert into penstock.hosts as host (origin, robots, robots_at) values (:origin, :robots, penstock.now())
on conflict (origin) do update set robots = excluded.robots, robots_at = excluded.robots_at

-- name: sweep_hosts
-- Hosts that were not requested for long.
delete from penstock.hosts where ctid = any (array(
  select ctid from penstock.hosts
  where next_at < penstock.now() - :older::interval and coalesce(robots_at, next_at) < penstock.now() - :older::interval
  limit :most::int for update skip locked
))
