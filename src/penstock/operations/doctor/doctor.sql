-- name: send_echo
select pg_notify(:channel, '')
