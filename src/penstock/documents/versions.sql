-- name: list_versions
-- Only the newest can be under way or have failed: what was not live when the next one came is dead.
select version.number,
  case
    when version.id = document.live_id then 'live'
    when version.id <> document.version_id or document.state = 'deleted' then 'dead'
    when document.state = 'failed' then 'failed'
    else 'preparing'
  end as state,
  blob.digest, blob.size, version.accepted_at, version.prepared_at
from penstock.documents as document
join penstock.versions as version on version.document_id = document.id
join penstock.blobs as blob on blob.id = version.blob_id
where document.id = :document and document.tenant = :tenant and version.number > :after
order by version.number limit :most

-- name: blob_of
-- The media type was found in the version that is live; another one may be of another type.
select document.name, document.state, newest.number as newest, version.number, blob.key, blob.digest, blob.size,
  case when version.id = document.live_id then document.media_type end as media_type
from penstock.documents as document
join penstock.versions as newest on newest.id = document.version_id
left join (
  penstock.versions as version join penstock.blobs as blob on blob.id = version.blob_id and blob.state = 'kept'
) on version.document_id = document.id and version.number = coalesce(:version::int, newest.number)
where document.id = :document and document.tenant = :tenant
