-- What is made of documents and conversations by language models, and where else they are indexed.

-- -- crawls -------------------------------------------------------------------------------------------------------------

-- What a web site asks for, and when it may be asked next: one row for the whole fleet, whoever crawls it.
create table penstock.hosts (
  origin    text primary key,                            -- scheme://host:port
  robots    text,                                        -- its robots.txt; null: not read yet
  robots_at timestamptz,
  next_at   timestamptz not null default penstock.now()  -- who wants to ask takes this time and moves it on
);

-- -- facts --------------------------------------------------------------------------------------------------------------

-- -- memos --------------------------------------------------------------------------------------------------------------

-- -- another index ------------------------------------------------------------------------------------------------------
--
-- Vectors may be searched in Qdrant instead (`index`). PostgreSQL keeps all of them in any case, and is what counts.
--
--   index, next_index:   postgres, none ── reindex ─▶ postgres, qdrant ── complete ─▶ qdrant, none     and back the same way
--
-- Each arrow is a turn. A version of a collection that has points, or is about to, becomes live when its points were counted
-- there (documents/awaiting.py). What must be removed there is a row until it was counted to be gone (documents/leaving.py).

alter table penstock.collections
  add column index         text not null default 'postgres' check (index in ('postgres', 'qdrant')),
  add column next_index    text check (next_index in ('postgres', 'qdrant')),  -- which is being built
  add column next_index_at timestamptz,                  -- since when
  add column index_job     bigint,                       -- builds it
  add column index_turn    int not null default 0,       -- changes of `index` or `next_index` so far
  add column has_points    boolean not null default false,  -- there may be some, until somebody has counted none
  add constraint another_index check (next_index <> index),
  add constraint dated_exactly_while_reindexed check ((next_index is null) = (next_index_at is null)),
  add constraint one_change_at_a_time check (next_index is null or next_model is null),
  add constraint points_are_known check (has_points or (index = 'postgres' and next_index is distinct from 'qdrant'));

-- Versions that are prepared, and wait for their points: what publishing them needs. `head_id` is the version that the job is
-- called with; the documents of a packet are published with the packet.
create table penstock.unpublished (
  version_id  bigint primary key references penstock.versions on delete cascade,
  tenant      text not null default 'default',
  document_id bigint not null,
  head_id     bigint not null,
  place       int not null,     -- in the order in which they are published
  job_id      bigint,           -- publishes them
  model       text not null,    -- this and the next two: of the collection when they were prepared
  next_model  text,
  model_turn  int not null,
  found       jsonb not null,   -- media_type, title, facts, pages, chunks, words, gaps, staged
  ending      jsonb not null default '{}',  -- what else belongs to it: the parts of a packet
  prepared_at timestamptz not null default penstock.now()
);
create index unpublished_head on penstock.unpublished (head_id, place);
create index unpublished_job on penstock.unpublished (job_id);

-- Versions whose points must go. The row goes when they were counted to be gone.
create table penstock.leaving_points (
  version_id    bigint primary key,
  collection_id int not null,
  since         timestamptz not null default penstock.now()
);

select penstock.guard('penstock.unpublished', 'tenant = current_setting(''penstock.tenant'')', false),
  penstock.guard('penstock.leaving_points', 'collection_id = any (array(select id from penstock.collections))', false);

-- As before, and whether a version needs points to become live. A switch of the index takes the same lock as one of the model.
drop function penstock.hold_models(int);
create function penstock.hold_models(asked int)
returns table (model text, next_model text, model_turn int, model_since int, wants_points boolean) language plpgsql volatile as $$
begin
  perform pg_advisory_xact_lock_shared(hashtext('penstock models'), asked);
  return query
    select collection.model, collection.next_model, collection.model_turn, collection.model_since,
      'qdrant' in (collection.index, coalesce(collection.next_index, collection.index))
    from penstock.collections as collection where collection.id = asked;
end $$;
