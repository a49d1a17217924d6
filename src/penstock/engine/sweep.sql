-- name: sweep_keys
with expired as (
  select key from penstock.job_keys where until <= penstock.now() order by until limit :bite for update skip locked
),
swept as (
  delete from penstock.job_keys where key = any (array(select key from expired)) returning key
)
select count(*)::int from swept

-- name: sweep_workers
delete from penstock.workers where gone_at < penstock.now() - interval '7 days'

-- name: sweep_own_checkpoints
-- One page of the steps that belong to a job alone: those whose job is neither alive nor a dead letter any more. What the
-- end of a job has not taken with it (a cancellation, a discard) is found here.
with page as materialized (
  select job_id from penstock.checkpoints where own and job_id > :after::bigint order by job_id limit :bite
),
over as (
  select distinct job_id from page where not exists (select from penstock.jobs where jobs.id = page.job_id)
),
swept as (
  delete from penstock.checkpoints where own and job_id = any (array(select job_id from over)) returning job_id
)
select (select count(*) from page)::int as looked, (select max(job_id) from page) as last,
  (select count(*) from swept)::int as swept

-- name: sweep_shared_checkpoints
-- The steps of a scope that nobody has come back to: a use makes them young again.
with old as (
  select ctid from penstock.checkpoints
  where not own and made_at < penstock.now() - :kept::interval order by made_at limit :bite for update skip locked
),
swept as (
  delete from penstock.checkpoints where ctid = any (array(select ctid from old)) returning job_id
)
select count(*)::int from swept
