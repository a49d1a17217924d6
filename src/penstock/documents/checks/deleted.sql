-- name: page
select id, deleted_at::text as at from penstock.documents
where deleted_at is not null and (deleted_at, id) > (:at::text::timestamptz, :document::bigint)
order by deleted_at, id limit :most

-- name: look
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
