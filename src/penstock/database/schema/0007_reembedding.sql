-- Another model for a collection: its vectors are made beside those that search reads, until they are complete.
--
--   model, next_model:   static, none ── set ─▶ static, minilm ── complete ─▶ minilm, none
--                                               └── the present model again ─▶ static, none
--
-- Each arrow is a turn. Who prepares a document notes the turn at which it began, and knows at its end by the number whether the
-- vectors that it has written are still those that are wanted.

alter table penstock.collections
  add column next_model    text,         -- of which vectors are being made
  add column next_model_at timestamptz,  -- since when
  add column next_job      bigint,       -- makes them
  add column model_turn    int not null default 0,  -- changes of `model` or `next_model` so far
  add column model_since   int not null default 0,  -- the turn at which `model` became what it is
  add constraint another_model check (next_model <> model),
  add constraint dated_exactly_while_becoming check ((next_model is null) = (next_model_at is null));

-- Versions that became live while a next model was being built, and were prepared without it or before it was wanted.
create table penstock.late_versions (
  collection_id int not null,
  version_id    bigint not null,
  primary key (collection_id, version_id)
);
