-- name: make_if_old
-- Two processes may make one each: both are good.
insert into penstock.signing_keys (id, secret)
select :id, :secret
where not exists (select from penstock.signing_keys where made_at > penstock.now() - interval '30 days')

-- name: signing_keys
select id, secret, penstock.now() as now from penstock.signing_keys
where made_at > penstock.now() - interval '60 days' order by made_at desc, id
