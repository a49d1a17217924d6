-- name: acknowledgements
select finding, subject, count, until, acknowledged_by from penstock.acknowledgements where until > penstock.now()

-- name: acknowledge
insert into penstock.acknowledgements (finding, subject, count, until, acknowledged_by)
select :finding, subject, max(count), penstock.now() + :lasting::interval, :by
from unnest(:subjects::text[], :counts::bigint[]) as named(subject, count)
group by subject
on conflict (finding, subject) do update
set count = excluded.count, until = excluded.until, acknowledged_at = penstock.now(), acknowledged_by = excluded.acknowledged_by

-- name: forget_ended
delete from penstock.acknowledgements where until <= penstock.now()
