-- name: page
with recursive step as (
  (select parent_id from penstock.documents where parent_id > :after order by parent_id limit 1)
  union all
  select following.parent_id from step cross join lateral (
    select parent_id from penstock.documents where parent_id > step.parent_id order by parent_id limit 1
  ) as following
)
select parent_id from step limit :most

-- name: look
select member.id, member.tenant, member.name, member.parent_id
from unnest(:parents::bigint[]) as asked(id)
join penstock.documents as parent on parent.id = asked.id
  and parent.state = 'deleted' and parent.deleted_at < penstock.now() - interval '15 minutes'
join penstock.documents as member on member.parent_id = parent.id and member.state <> 'deleted'
limit :most
