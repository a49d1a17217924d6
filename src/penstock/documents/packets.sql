-- name: same_packet
-- The newest version of a packet of this name, if its list of documents is the same.
select document.id, document.state, document.job_id, version.id as version_id, version.number
from penstock.documents as document
join penstock.packets as packet on packet.version_id = document.version_id
join penstock.versions as version on version.id = document.version_id
where document.tenant = :tenant and document.collection_id = :collection and document.name = :name
  and document.state <> 'deleted' and packet.digest = :digest
for no key update of document

-- name: add_packet
insert into penstock.packets (version_id, document_id, tenant, digest, require_all)
values (:version, :document, :tenant, :digest, :require_all)

-- name: add_packet_documents
insert into penstock.packet_documents (version_id, place, name, member_id, member_version, reason)
select :version, place, name, member_id, member_version, reason
from unnest(:places::int[], :names::text[], :members::bigint[], :versions::bigint[], :reasons::text[])
  as sourced(place, name, member_id, member_version, reason)

-- name: load_packet
select packet.document_id as document, packet.version_id as version, packet.require_all, packet.merged_at is not null as merged
from penstock.packets as packet join penstock.documents as document on document.version_id = packet.version_id
where packet.document_id = :document and packet.version_id = :version and document.state <> 'deleted'

-- name: load_packet_documents
select sourced.place, sourced.name, sourced.member_id, sourced.member_version, sourced.first_page, sourced.pages,
  sourced.media_type, sourced.gaps, sourced.reason, blob.key as blob_key, blob.size
from penstock.packet_documents as sourced
left join penstock.versions as version on version.id = sourced.member_version
left join penstock.blobs as blob on blob.id = version.blob_id
where sourced.version_id = :version
order by sourced.place

-- name: keep_merged
-- Its bytes are the consolidated PDF from now on.
with packet as (
  update penstock.packets set merged_at = penstock.now() where version_id = :version and merged_at is null returning version_id
),
version as (
  update penstock.versions set blob_id = :blob where id = (select version_id from packet)
)
update penstock.packet_documents as sourced
set first_page = merged.first_page, pages = merged.pages, media_type = merged.media_type, reason = merged.reason,
  gaps = merged.gaps::jsonb
from unnest(:places::int[], :firsts::int[], :pages::int[], :media_types::text[], :reasons::text[], :gaps::text[])
  as merged(place, first_page, pages, media_type, reason, gaps)
where sourced.version_id = (select version_id from packet) and sourced.place = merged.place

-- name: fail_members
-- queued -> failed: what the packet could not take in, while the packet itself is ready.
with failed as (
  update penstock.documents as document
  set state = 'failed', changed_at = penstock.now(),
    error = jsonb_build_object('class', 'Unreadable', 'message', missing.reason, 'step', 'merge')
  from unnest(:members::bigint[], :versions::bigint[], :reasons::text[]) as missing(member, version, reason)
  where document.id = missing.member and document.version_id = missing.version and document.state = 'queued'
  returning document.tenant, document.collection_id, document.id, document.error
)
insert into penstock.events (tenant, collection_id, document_id, event, details)
select tenant, collection_id, id, 'failed', error from failed

-- name: add_parts
insert into penstock.packet_parts (version_id, first_page, last_page, label, confidence)
select :version, first_page, last_page, label, confidence
from unnest(:firsts::int[], :lasts::int[], :labels::text[], :confidences::real[]) as part(first_page, last_page, label, confidence)
on conflict (version_id, first_page) do nothing

-- name: gone_members
-- Members of a packet that its present version does not have any more.
select document.id from penstock.documents as document
where document.parent_id = :document and document.state <> 'deleted'
  and not exists (
    select from penstock.packet_documents as sourced where sourced.version_id = :version and sourced.member_id = document.id
  )

-- name: lock_members
select document.id, document.name, document.version_id, nextval('penstock.versions_id_seq') as new_version
from penstock.documents as document
where document.parent_id = :parent and document.state <> 'deleted' and document.name = any (:names::text[])
order by document.id for update

-- name: show_packets
-- A packet as it is found, or as it was accepted last while nothing is found of it yet.
select document.id, packet.version_id, packet.require_all, packet.merged_at,
  (select message.source from penstock.inbox as message where message.document_id = document.id limit 1) as source,
  (select message.message_id from penstock.inbox as message where message.document_id = document.id limit 1) as message_id
from penstock.documents as document
join penstock.packets as packet on packet.version_id = coalesce(document.live_id, document.version_id)
where document.tenant = :tenant and document.id = any (:ids::bigint[])

-- name: show_packet_documents
select sourced.version_id, sourced.place, sourced.name, sourced.member_id as document, sourced.first_page, sourced.pages, sourced.gaps,
  coalesce(nullif(sourced.reason, ''), member.error ->> 'message', '') as reason, sourced.media_type,
  case
    when sourced.member_id is null then 'missing'
    when member.state = 'queued' and sourced.reason <> '' then 'failed'
    else coalesce(member.state, 'deleted')
  end as status
from penstock.packet_documents as sourced
left join penstock.documents as member on member.id = sourced.member_id
where sourced.version_id = any (:versions::bigint[])
order by sourced.version_id, sourced.place

-- name: show_parts
select version_id, first_page, last_page, label, confidence from penstock.packet_parts
where version_id = any (:versions::bigint[]) order by version_id, first_page

-- name: list_packets
select document.id
from penstock.documents as document
join penstock.packets as packet on packet.version_id = document.version_id
where document.tenant = :tenant and document.state <> 'deleted' and document.id > :after
  and (:collection::int is null or document.collection_id = :collection)
order by document.id limit :most

-- name: waiting_message
-- A packet that is still a message: it was not taken yet, or failed.
select message.id, message.message_id, message.source, message.payload, message.state, message.error, message.job_id, message.received_at
from penstock.inbox as message where message.id = :id and message.tenant = :tenant and message.state <> 'taken'
