-- name: deleted_page
select id, deleted_at::text as at from penstock.documents
where deleted_at is not null and (deleted_at, id) > (:at::text::timestamptz, :document::bigint)
order by deleted_at, id limit :most

-- name: deleted_found
-- A document moves from the one table to the other, or to neither and is not deleted any more, in one statement.
with looked as (
  select document.id, document.tenant, document.name,
    case
      when removal.document_id is null and receipt.document_id is null then 'lost'
      when removal.due_at < penstock.now() - make_interval(hours => :hours) then 'late'
      when receipt.verified_at is null and receipt.removed_at < penstock.now() - make_interval(hours => :hours) then 'unverified'
    end as wrong
  from penstock.documents as document
  left join penstock.removals as removal on removal.document_id = document.id
  left join penstock.receipts as receipt on receipt.document_id = document.id
  where document.id = any (:documents::bigint[]) and document.state = 'deleted'
)
select id, tenant, name, wrong from looked where wrong is not null order by id

-- name: put_in_line
-- Of those that are in neither table. What it was before is not known: it cannot be restored.
insert into penstock.removals (document_id, tenant, collection_id, state, reason, deleted_at, due_at)
select id, tenant, collection_id, 'ready', 'found without a removal', deleted_at, deleted_at
from penstock.documents as document
where id = :document and state = 'deleted'
  and not exists (select from penstock.removals where removals.document_id = document.id)
  and not exists (select from penstock.receipts where receipts.document_id = document.id)
on conflict do nothing
returning document_id

-- name: orphans_page
with recursive step as (
  (select parent_id from penstock.documents where parent_id > :after order by parent_id limit 1)
  union all
  select following.parent_id from step cross join lateral (
    select parent_id from penstock.documents where parent_id > step.parent_id order by parent_id limit 1
  ) as following
)
select parent_id from step limit :most

-- name: orphans_found
select member.id, member.tenant, member.name, member.parent_id
from unnest(:parents::bigint[]) as asked(id)
join penstock.documents as parent on parent.id = asked.id
  and parent.state = 'deleted' and parent.deleted_at < penstock.now() - interval '15 minutes'
join penstock.documents as member on member.parent_id = parent.id and member.state <> 'deleted'
limit :most

-- name: versions_page
select id from penstock.versions where id > :after order by id limit :most

-- name: versions_found
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
