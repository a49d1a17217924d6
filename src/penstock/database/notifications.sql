-- name: send
select pg_notify(:channel, :payload)
