-- name: list_entities
select entity.id, entity.name, entity.type, seen.facts
from penstock.entities as entity
cross join lateral (
  select count(distinct mention.fact_id)::int as facts
  from penstock.mentions as mention
  join penstock.facts as fact on fact.id = mention.fact_id
  -- include: visible.sql visible
  where mention.entity_id = entity.id
) as seen
where entity.collection_id = :collection and entity.id > :after and (:kind::text is null or entity.type = :kind::text)
  and seen.facts > 0
order by entity.id limit :most
