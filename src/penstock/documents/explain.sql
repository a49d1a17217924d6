-- name: numbered
-- What of the things that share one sequence with jobs has this number.
select exists (select from penstock.documents where id = :number and tenant = :tenant) as document,
  exists (select from penstock.inbox where id = :number and tenant = :tenant) as message

-- name: packet_of
-- Whether a document is a packet, and what became of the documents in it.
select count(*) as documents,
  count(*) filter (where member.state = 'ready') as ready,
  count(*) filter (where member.state = 'failed') as failed,
  count(*) filter (where sourced.member_id is null) as missing
from penstock.packets as packet
join penstock.packet_documents as sourced on sourced.version_id = packet.version_id
left join penstock.documents as member on member.id = sourced.member_id
where packet.version_id = :version
group by packet.version_id

-- name: pace
-- How long the last documents took that are about as large, of those that were prepared without a failure. From the last jobs of
-- the history, whatever they were: see engine/inspect/queries.sql.
with
  -- include: ../engine/inspect/queries.sql recent_jobs
  ,
  alike as (
    select recent.seconds
    from (
      select recent.* from recent
      join penstock.lanes as lane on lane.id = recent.lane
      join penstock.jobs as job on job.id = :job
      join penstock.lanes as its on its.id = job.lane and its.kind = lane.kind and its.queue = lane.queue
      where recent.seconds >= 0 limit :few::int
    ) as recent
    join penstock.versions as version on version.id = (recent.args ->> 'version')::bigint
    join penstock.blobs as blob on blob.id = version.blob_id
    order by abs(ln(blob.size + 1) - ln(:size::bigint + 1)) limit :alike::int
  )
select count(*) as jobs, percentile_cont(0.5) within group (order by seconds) as usual,
  percentile_cont(0.9) within group (order by seconds) as long
from alike
