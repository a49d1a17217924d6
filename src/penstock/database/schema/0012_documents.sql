-- A deleted collection can be restored until this time; null when it cannot, or when it is not deleted.
alter table penstock.collections add column restorable_until timestamptz;

-- The reason of a failure that was reported to the source of a message, as a digest: another reason is reported again.
alter table penstock.inbox add column told_reason text;

-- The jobs of a source's messages are of a kind of their own, which only workers declare that have the source in their settings.
insert into penstock.lanes (queue, kind, fairness_key)
select distinct lane.queue, 'take_message.' || message.source, lane.fairness_key
from penstock.inbox as message
join penstock.jobs as job on job.id = message.job_id
join penstock.lanes as lane on lane.id = job.lane and lane.kind = 'take_message'
where message.source <> '_api'
on conflict do nothing;

update penstock.jobs as job set lane = own.id
from penstock.inbox as message, penstock.lanes as lane, penstock.lanes as own
where job.id = message.job_id and lane.id = job.lane and lane.kind = 'take_message' and message.source <> '_api'
  and own.queue = lane.queue and own.kind = 'take_message.' || message.source and own.fairness_key = lane.fairness_key
  and job.state <> 'running';
