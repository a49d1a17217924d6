-- name: note_leaving
insert into penstock.leaving_points (version_id, collection_id)
select version, :collection from unnest(:versions::bigint[]) as gone(version)
where exists (select from penstock.collections where id = :collection and has_points)
on conflict do nothing
returning version_id

-- name: list_leaving
with first as (
  select collection.model from penstock.leaving_points as leaving
  join penstock.collections as collection on collection.id = leaving.collection_id
  order by leaving.version_id limit 1
)
select leaving.version_id as version, collection.model
from penstock.leaving_points as leaving join penstock.collections as collection on collection.id = leaving.collection_id
where collection.model = (select model from first)
order by leaving.version_id limit :most

-- name: forget_leaving
delete from penstock.leaving_points where version_id = any (:versions::bigint[])

-- name: is_any_leaving
select exists (select from penstock.leaving_points)
