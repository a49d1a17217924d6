-- name: models_of
-- By which the facts of these collections have vectors.
select distinct embedder from penstock.extractions
where collection_id = any (:collections::int[]) and state = 'current' order by embedder

-- name: by_words
-- A fact needs one word of the question. Each collection is asked in its own language; their scores are alike enough to be mixed.
-- The best are chosen before it is looked which of them can be found: few are hidden, and a common word is in most.
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
  substr(page.text, shown.stop + 1, :around::int) as behind
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
