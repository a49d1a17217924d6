-- name: kept_steps
-- What earlier attempts have kept; without the contents, of which only some are needed. A job that comes back to a scope keeps
-- it from being swept.
with used as (
  update penstock.checkpoints set made_at = penstock.now()
  where scope = :scope and not own and made_at < penstock.now() - interval '1 hour'
)
select step, version, digest from penstock.checkpoints where scope = :scope

-- name: kept_content
select format, content from penstock.checkpoints
where scope = :scope and step = :step and version = :version and digest = :digest

-- name: keep_checkpoint
-- Only the present attempt may keep anything. The lock on the row lasts until the commit: no rescue can come in between.
-- An older content of the same key is replaced: what is kept is what was used last.
with fence as (
  select id from penstock.jobs where id = :id and attempt = :attempt and worker_id = :worker_id for share
),
kept as (
  insert into penstock.checkpoints (scope, step, version, digest, job_id, own, format, content, seconds)
  select :scope::text, :step::text, :version::int, :digest::bytea, fence.id, :own::boolean, :format::text, :content::bytea,
    :seconds::real
  from fence
  on conflict (scope, step, version, digest) do update
    set job_id = excluded.job_id, format = excluded.format, content = excluded.content, seconds = excluded.seconds,
      made_at = excluded.made_at
)
select id from fence

-- name: forget_scopes
-- The scopes' work is done.
delete from penstock.checkpoints where scope = any (:scopes::text[])
