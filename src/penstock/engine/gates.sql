-- The one place that says whether a worker may take jobs from a lane. The claim obeys it and `why` explains with it.

-- name: admission
admission as (
  select
    lane.id as lane, lane.queue, lane.kind, lane.share,
    coalesce(share.weight, 1) as weight,
    worker.id as worker_id,
    pause.what as paused_what, pause.name as paused_name, pause.reason as paused_reason, pause.since as paused_since,
    case
      when pause.since is not null then 'paused'
      when worker.id is null then 'unserved'
      when not (lane.queue = any (worker.queues) and lane.kind = any (worker.kinds)) then 'unserved'
      when worker.draining then 'draining'
      else 'open'
    end as verdict
  from penstock.lanes as lane
  left join penstock.shares as share on share.name = lane.share
  left join lateral (
    select what, name, reason, since
    from penstock.pauses
    where (what, name) in (('queue', lane.queue), ('kind', lane.kind), ('share', lane.share))
    order by since limit 1
  ) as pause on true
  left join penstock.workers as worker on worker.gone_at is null
)
