-- name: wanted
-- A fragment: live versions, and deleted ones that can be restored.
select document.live_id as version, document.id as document, document.name, document.tenant, document.collection_id as collection
from penstock.documents as document where document.live_id is not null
union all
select removal.live_id, document.id, document.name, document.tenant, document.collection_id
from penstock.removals as removal join penstock.documents as document on document.id = removal.document_id
where removal.live_id is not null and removal.due_at > penstock.now()

-- name: list_wanted
-- By the index of live versions; the deleted ones that can be restored are few.
select wanted.version, version.chunks, wanted.collection, wanted.tenant, wanted.document, wanted.name
from (
  (
    select document.live_id as version, document.id as document, document.name, document.tenant, document.collection_id as collection
    from penstock.documents as document
    join penstock.collections as collection on collection.id = document.collection_id
      and collection.model = :model and 'qdrant' in (collection.index, coalesce(collection.next_index, collection.index))
    where document.live_id > :after and (:collection::int is null or document.collection_id = :collection)
    order by document.live_id limit :most
  )
  union all
  (
    select removal.live_id, document.id, document.name, document.tenant, document.collection_id
    from penstock.removals as removal
    join penstock.documents as document on document.id = removal.document_id
    join penstock.collections as collection on collection.id = document.collection_id
      and collection.model = :model and 'qdrant' in (collection.index, coalesce(collection.next_index, collection.index))
    where removal.live_id > :after and removal.due_at > penstock.now()
      and (:collection::int is null or document.collection_id = :collection)
    order by removal.live_id limit :most
  )
) as wanted
join penstock.versions as version on version.id = wanted.version
order by wanted.version limit :most

-- name: wanted_among
select wanted.version
from (
  -- include: sync.sql wanted
) as wanted
join penstock.collections as collection on collection.id = wanted.collection
  and collection.model = :model and 'qdrant' in (collection.index, coalesce(collection.next_index, collection.index))
where wanted.version = any (:versions::bigint[])

-- name: kept_among
select version.id
from penstock.versions as version
join penstock.documents as document on document.id = version.document_id
join penstock.collections as collection on collection.id = document.collection_id
where version.id = any (:versions::bigint[]) and version.cleared_at is null and collection.model = :model
  and 'qdrant' in (collection.index, coalesce(collection.next_index, collection.index))
  and not exists (select from penstock.leaving_points where version_id = version.id)

-- name: live_among
select document.live_id as version, version.chunks
from penstock.documents as document join penstock.versions as version on version.id = document.live_id
where document.live_id = any (:versions::bigint[]) and document.collection_id = any (:collections::int[])
