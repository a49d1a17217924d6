-- name: send_echo
select pg_notify(:channel, '')

-- name: has_collections
-- Whether documents were ever added: an application with jobs of its own has no collection.
select exists (select from penstock.collections)
