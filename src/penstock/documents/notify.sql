-- name: notify
select pg_notify(:channel, '')

-- name: last_event
select coalesce(max(id), 0) from penstock.events
