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
-- An entity that exists keeps its first name.
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

-- name: models_of
-- The models by which facts of these collections have vectors.
select distinct embedder from penstock.extractions
where collection_id = any (:collections::int[]) and state = 'current' order by embedder

-- name: by_words
-- A fact needs one word of the question. Each collection is asked in its own language; their scores are alike enough to be mixed.
-- The best are chosen before the hidden ones are removed: few are hidden, and a common word is in most.
with asked as materialized (  -- once, and not for each fact
  select given.collection_id,
    replace(plainto_tsquery(penstock.text_language(given.language), :question::text)::text, '&', '|')::tsquery as query
  from unnest(:collections::int[], :languages::text[]) as given(collection_id, language)
),
best as materialized (
  select fact.id, ts_rank(fact.words, asked.query, 1)::float8 as score
  from asked join penstock.facts as fact on fact.collection_id = asked.collection_id and fact.words @@ asked.query
  order by score desc, fact.id limit :most
)
select best.id, best.score from best
join penstock.facts as fact on fact.id = best.id
-- include: visible.sql visible
order by best.score desc, best.id

-- name: visible_among
select fact.id from penstock.facts as fact
-- include: visible.sql visible
where fact.id = any (:ids::bigint[])

-- name: show_hits
select asked.place, shown.*,
  substr(page.text, greatest(shown.start - :around::int, 0) + 1, least(shown.start, :around::int)) as before,
  substr(page.text, shown.stop + 1, :around::int) as after
from unnest(:ids::bigint[]) with ordinality as asked(id, place)
cross join lateral (
  -- include: facts.sql shown
  from penstock.facts as fact
  -- include: visible.sql visible
  join penstock.collections as collection on collection.id = fact.collection_id
  where fact.id = asked.id
) as shown
join penstock.pages as page on page.version_id = shown.version and page.number = shown.page
order by asked.place
