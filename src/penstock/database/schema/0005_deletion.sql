-- Deletion: what waits to be removed, and receipts of what was.
--
--   delete ─▶ a row of removals ── restored before it is due ─▶ (no row)
--                     └─ due, its jobs are over ─▶ a receipt ── looked again, nothing found ─▶ verified
--
-- A document that is deleted has a row in exactly one of the two tables.

-- Deleted documents whose rows and bytes are still there, and what they were before: for who restores them.
create table penstock.removals (
  document_id   bigint primary key references penstock.documents,
  tenant        text not null default 'default',
  collection_id int not null,
  state         text not null,  -- before it was deleted
  live_id       bigint,         -- what search saw
  deleted_by    text not null default '',
  reason        text not null default '',
  deleted_at    timestamptz not null,
  due_at        timestamptz not null,  -- it can be restored before, and is removed after it
  removed       jsonb,  -- what there was when the removal began; who goes on after a crash counts no second time
  constraint due_after_it_was_deleted check (due_at >= deleted_at)
) with (autovacuum_vacuum_scale_factor = 0.05);
create index removals_due on penstock.removals (due_at, document_id);

-- What was removed, when, on whose wish, and that somebody looked afterwards. They stay.
create table penstock.receipts (
  document_id bigint primary key,
  tenant      text not null default 'default',
  collection  text not null,
  name        text not null,
  parent_id   bigint,
  contents    jsonb not null,  -- [{"version": 1, "digest": "…", "size": 5}]
  deleted_by  text not null default '',
  reason      text not null default '',
  deleted_at  timestamptz not null,
  removed_at  timestamptz not null default penstock.now(),
  removed     jsonb not null,
  -- What is looked for to verify it.
  collection_id int not null,
  version_ids bigint[] not null,
  job_ids     bigint[] not null,
  keys        text[] not null,  -- in the blob store
  verified_at timestamptz,
  verified    jsonb,
  constraint verified_by_something check ((verified_at is null) = (verified is null))
);
create index receipts_tenant on penstock.receipts (tenant, document_id);
create index receipts_unverified on penstock.receipts (document_id) where verified_at is null;

-- The results of a long scan's parts are texts of the document, kept in the history of jobs until they are old: by the version.
create index job_history_parts on penstock.job_history ((args ->> 'version')) where fanout is not null and result is not null;

-- What an older release has deleted.
insert into penstock.removals (document_id, tenant, collection_id, state, reason, deleted_at, due_at)
select id, tenant, collection_id, 'ready', 'deleted by an older release', deleted_at, deleted_at
from penstock.documents where state = 'deleted';
