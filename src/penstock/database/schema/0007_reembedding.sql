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

-- The models of a collection, which stay as they are until the caller's commit: who publishes shares them, and a switch takes them
-- alone. A function, because its second query sees what was committed before the lock was granted; a part of a statement would
-- see what there was when the statement began.
create function penstock.hold_models(asked int)
returns table (model text, next_model text, model_turn int, model_since int) language plpgsql volatile as $$
begin
  perform pg_advisory_xact_lock_shared(hashtext('penstock models'), asked);
  return query
    select collection.model, collection.next_model, collection.model_turn, collection.model_since
    from penstock.collections as collection where collection.id = asked;
end $$;
