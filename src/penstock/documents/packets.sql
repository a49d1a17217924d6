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
-- A packet that is still a message: nobody has taken it yet, or it could not be.
select message.id, message.message_id, message.source, message.payload, message.state, message.error, message.job_id, message.received_at
from penstock.inbox as message where message.id = :id and message.tenant = :tenant and message.state <> 'taken'
