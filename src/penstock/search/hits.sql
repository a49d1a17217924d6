-- name: show_chunks
-- Only of live versions, whatever the index says.
select asked.place, chunk.version_id as version, chunk.ordinal as chunk, chunk.page, chunk.start, chunk.stop, chunk.heading, chunk.text,
  document.id as document, document.name, document.media_type, document.collection_id, collection.name as collection,
  packet.document_id as packet, sourced.first_page + chunk.page - 1 as packet_page
from unnest(:versions::bigint[], :ordinals::int[]) with ordinality as asked(version_id, ordinal, place)
join penstock.chunks as chunk on chunk.version_id = asked.version_id and chunk.ordinal = asked.ordinal
join penstock.documents as document on document.live_id = asked.version_id
join penstock.collections as collection on collection.id = document.collection_id
-- For a document of a packet: where the passage stands in the live consolidated PDF.
left join (
  penstock.packet_documents as sourced
  join penstock.packets as packet on packet.version_id = sourced.version_id
  join penstock.documents as whole on whole.live_id = packet.version_id
) on sourced.member_version = asked.version_id
order by asked.place

-- name: neighbours
select chunk.version_id, asked.ordinal as of, chunk.ordinal, chunk.page, chunk.heading, chunk.text
from unnest(:versions::bigint[], :ordinals::int[]) as asked(version_id, ordinal)
join penstock.chunks as chunk on chunk.version_id = asked.version_id
  and chunk.ordinal between asked.ordinal - :reach::int and asked.ordinal + :reach::int and chunk.ordinal <> asked.ordinal
order by chunk.version_id, of, chunk.ordinal
