-- name: already_there
-- What a collection has under these names, with the newest version's bytes.
select document.id, document.name, document.state, document.error ->> 'message' as error, blob.digest
from penstock.documents as document
join penstock.versions as version on version.id = document.version_id
join penstock.blobs as blob on blob.id = version.blob_id
where document.collection_id = :collection and document.state <> 'deleted' and document.name = any (:names::text[])
