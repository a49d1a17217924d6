-- name: lost_lately
select count(*) as lost, (array_agg(name order by gone_at desc))[1] as last_name, (array_agg(gone_why order by gone_at desc))[1] as last_why
from penstock.workers where gone_at > penstock.now() - interval '1 hour' and gone_why <> 'left' and not load ? 'known'
