-- name: page
select id from penstock.versions where id > :after order by id limit :most

-- name: look
-- A replacement, a publication and a deletion each do all of it in one statement: in one snapshot there is nothing in between.
select version.id, version.number, version.document_id, document.tenant, document.name
from penstock.versions as version join penstock.documents as document on document.id = version.document_id
where version.id = any (:versions::bigint[]) and version.dead_at is null
  and version.id is distinct from document.live_id
  and (version.id is distinct from document.version_id or document.state = 'deleted')
order by version.id

-- name: give_up
update penstock.versions as version set dead_at = penstock.now()
from penstock.documents as document
where version.id = :version and document.id = version.document_id and version.dead_at is null
  and version.id is distinct from document.live_id
  and (version.id is distinct from document.version_id or document.state = 'deleted')
returning version.id
