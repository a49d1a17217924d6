-- name: write_facts
-- In the words of the collection's language, where PostgreSQL knows it.
insert into penstock.facts (tenant, collection_id, version_id, extraction_id, ordinal, kind, relation, statement, quote, page, start, stop,
  confidence, words)
select :tenant, :collection, :version, :extraction, :first::int + given.place::int - 1, given.kind, given.relation, given.statement, given.quote,
  given.page, given.start, given.stop, given.confidence,
  to_tsvector(penstock.text_language(:language), given.statement || ' ' || given.quote)
from unnest(:kinds::text[], :relations::text[], :statements::text[], :quotes::text[], :pages::int[], :starts::int[], :stops::int[],
  :confidences::real[]) with ordinality as given(kind, relation, statement, quote, page, start, stop, confidence, place)
order by given.place
returning id

-- name: write_mentions
-- An entity that is there keeps the name by which it came first.
with given as (
  select * from unnest(:facts::bigint[], :types::text[], :keys::text[], :names::text[], :roles::text[])
    with ordinality as given(fact_id, type, key, name, role, place)
),
entity as (
  insert into penstock.entities as entity (tenant, collection_id, type, key, name)
  select distinct on (type, key) :tenant, :collection::int, type, key, name from given order by type, key, place
  on conflict (collection_id, type, key) do update set name = entity.name
  returning id, type, key
)
insert into penstock.mentions (fact_id, entity_id, role)
select distinct given.fact_id, entity.id, given.role from given join entity on entity.type = given.type and entity.key = given.key

-- name: shown
select fact.id, fact.statement, fact.kind, fact.relation, fact.quote, fact.confidence, document.id as document, fact.version_id as version,
  document.name, collection.name as collection, fact.page, fact.start, fact.stop

-- name: list_facts
-- include: facts.sql shown
from penstock.facts as fact
-- include: visible.sql visible
join penstock.collections as collection on collection.id = fact.collection_id
where document.id = :document and fact.id > :after
order by fact.id limit :most

-- name: mentions_of
select mention.fact_id, mention.entity_id, entity.name, entity.type, mention.role
from penstock.mentions as mention join penstock.entities as entity on entity.id = mention.entity_id
where mention.fact_id = any (:facts::bigint[])
order by mention.fact_id, mention.role, entity.id
