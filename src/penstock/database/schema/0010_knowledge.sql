-- What is made of documents and conversations by language models, and where else they are indexed.

-- -- crawls -------------------------------------------------------------------------------------------------------------
--
--   a page:   waiting ─┬─▶ kept      a document of the collection
--                      ├─▶ skipped   for a reason that is no fault: robots.txt, another address of the same page, a picture
--                      └─▶ failed    it could not be had; the crawl goes on
--
-- Pages are asked for in rounds, each a fan-out of the crawl's job. Which pages a round has is written before it begins, so that
-- every attempt of the job goes on with the same ones.

-- What a web site asks for, and when it may be asked next: one row for the whole fleet, whoever crawls it.
create table penstock.hosts (
  origin    text primary key,                             -- scheme://host:port
  robots    text,                                         -- its robots.txt, empty if it has none; null: not read yet
  robots_at timestamptz,
  next_at   timestamptz not null default penstock.now(),  -- who wants to ask takes this time and moves it on
  constraint dated_when_read check ((robots is null) = (robots_at is null))
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.1);

create table penstock.crawls (
  id            bigint primary key default nextval('penstock.jobs_id_seq'),
  tenant        text not null default 'default',
  collection_id int not null,
  url           text not null,                           -- where it begins, in its canonical form
  hosts         text[] not null,                         -- those that belong to it, with their port unless it is the usual one
  depth         int not null check (depth >= 0),         -- links from the first page on
  max_pages     int not null check (max_pages > 0),      -- addresses that are asked for, at most
  job_id        bigint not null,
  begun_by      text not null default '',
  state         text not null default 'running' check (state in ('running', 'done', 'failed', 'stopped')),
  error         jsonb,                                   -- class, message, step
  round         int not null default 0,                  -- the last that was begun
  round_open    boolean not null default false,          -- and is under way
  created_at    timestamptz not null default penstock.now(),
  ended_at      timestamptz,
  constraint failed_with_a_reason check ((state in ('failed', 'stopped')) = (error is not null)),
  constraint ended_when_over check ((state = 'running') = (ended_at is null))
);
create index crawls_tenant on penstock.crawls (tenant, id);
create index crawls_job on penstock.crawls (job_id);
create index crawls_ended on penstock.crawls (ended_at) where ended_at is not null;

create table penstock.crawl_pages (
  id          bigint generated always as identity primary key,
  crawl       bigint not null references penstock.crawls on delete cascade,
  tenant      text not null default 'default',
  url         text not null check (octet_length(url) <= 2000),  -- canonical: one page is one row
  depth       int not null,
  state       text not null default 'waiting' check (state in ('waiting', 'kept', 'skipped', 'failed')),
  reason      text not null default '',
  round       int,                              -- in which it was asked for; null: not yet, or it needed no request of its own
  document_id bigint,
  left_out    int not null default 0,           -- links on it that were new, and for which there was no room
  changed_at  timestamptz not null default penstock.now(),
  constraint kept_as_a_document check ((state = 'kept') = (document_id is not null)),
  constraint told_why check (state in ('waiting', 'kept') or reason <> '')
) with (fillfactor = 80);
create unique index crawl_pages_url on penstock.crawl_pages (crawl, url);
create index crawl_pages_round on penstock.crawl_pages (crawl, round);
create index crawl_pages_document on penstock.crawl_pages (document_id) where document_id is not null;

-- A crawl follows its job, as a document does. One that is tried again asks for its first page anew: that may be why it failed.
create function penstock.crawl_follows_job() returns trigger language plpgsql as $$
begin
  if new.state = 'dead' then
    update penstock.crawls set state = 'failed', error = coalesce(penstock.readable(new.error), '{"message": "unknown"}'),
      ended_at = penstock.now()
    where job_id = new.id and state = 'running';
  else
    update penstock.crawls set state = 'running', error = null, ended_at = null where job_id = new.id and state = 'failed';
    update penstock.crawl_pages as page set state = 'waiting', reason = '', round = null, changed_at = penstock.now()
    from penstock.crawls as crawl
    where crawl.job_id = new.id and crawl.state = 'running' and page.crawl = crawl.id and page.depth = 0
      and page.state in ('failed', 'skipped');
  end if;
  return null;
end $$;

create function penstock.crawl_follows_history() returns trigger language plpgsql as $$
begin
  update penstock.crawls set state = case new.outcome when 'cancelled' then 'stopped' else 'failed' end,
    error = case when new.outcome = 'cancelled' and penstock.readable(new.error) ->> 'class' is distinct from 'Cancelled'
      then '{"class": "Cancelled", "message": "stopped"}'::jsonb
      else coalesce(penstock.readable(new.error), jsonb_build_object('class', 'Cancelled', 'message', new.outcome)) end,
    ended_at = coalesce(ended_at, penstock.now())
  where job_id = new.id and state in ('running', 'failed');
  return null;
end $$;

create trigger crawl_follows_job after update of state on penstock.jobs
  for each row when ((old.state = 'dead') <> (new.state = 'dead'))
  execute function penstock.crawl_follows_job();
create trigger crawl_follows_history after insert on penstock.job_history
  for each row when (new.outcome <> 'done')
  execute function penstock.crawl_follows_history();

select penstock.guard('penstock.crawls', 'tenant = current_setting(''penstock.tenant'')', true),
  penstock.guard('penstock.crawl_pages', 'tenant = current_setting(''penstock.tenant'')', true);

do $$
begin
  if penstock.has_roles() then
    grant select on penstock.hosts to penstock_request;  -- `why` tells when a host may be asked again
    grant usage on sequence penstock.crawl_pages_id_seq to penstock_request;
  end if;
end $$;

-- -- facts --------------------------------------------------------------------------------------------------------------
--
-- What a language model has read in a version. It is written under an extraction that nobody sees, in batches; one update makes
-- that the current one of its document. A fact can be found while its extraction is current and its version is the live one: so
-- a newer version and a deletion hide it in the same instant. Everything hangs on the version, and goes with it.
--
--   begin ─▶ staged ── published ─▶ current ── another one is published, or another version is live ─▶ old ─▶ (removed)
--               └─ its job is over without it ─▶ (removed)

alter table penstock.collections add column keeps_facts boolean not null default false;  -- new versions are read unasked

create table penstock.extractions (
  id            bigint generated always as identity primary key,
  tenant        text not null default 'default',
  collection_id int not null references penstock.collections,
  document_id   bigint not null references penstock.documents,
  version_id    bigint not null references penstock.versions on delete cascade,
  plan          text not null,               -- digest of what was asked for, how, and of whom
  llm           text not null,
  embedder      text not null,               -- the model of its vectors
  state         text not null default 'staged' check (state in ('staged', 'current', 'old')),
  job_id        bigint not null,
  windows       int not null default 0,      -- parts of the document
  answered      int not null default 0,      -- of them
  facts         int not null default 0,
  rejected      jsonb not null default '{}', -- how many of what the model said were not taken, by reason
  gaps          jsonb not null default '[]', -- [{"window": 3, "page": 7, "reason": "…"}]: what is missing
  tokens_in     bigint not null default 0,
  tokens_out    bigint not null default 0,
  cost          float8 not null default 0,
  made_at       timestamptz not null default penstock.now()
) with (fillfactor = 80);
create unique index extractions_current on penstock.extractions (document_id) where state = 'current';
create index extractions_version on penstock.extractions (version_id);
create index extractions_document on penstock.extractions (document_id);
create index extractions_past on penstock.extractions (id) where state <> 'current';
create index extractions_partial on penstock.extractions (document_id) where state = 'current' and gaps <> '[]';

-- What the model has said about each part: what has failed is asked alone the next time.
create table penstock.extraction_windows (
  version_id bigint not null references penstock.versions on delete cascade,
  plan       text not null,
  ordinal    int not null,     -- from 0 on
  answer     json not null,    -- json and not jsonb: it may hold any character
  tokens_in  bigint not null,
  tokens_out bigint not null,
  cost       float8 not null,
  asked_at   timestamptz not null default penstock.now(),
  primary key (version_id, plan, ordinal)
);

-- A relation is a fact with two ends.
create table penstock.facts (
  id            bigint generated always as identity primary key,
  tenant        text not null default 'default',
  collection_id int not null,
  version_id    bigint not null,
  extraction_id bigint not null references penstock.extractions on delete cascade,
  ordinal       int not null,   -- within the extraction, from 0 on
  kind          text not null,
  relation      text,
  statement     text not null check (char_length(statement) between 1 and 1000),
  quote         text not null check (quote <> ''),
  page          int not null,
  start         int not null,   -- in the text of the page, where the quote stands to the letter
  stop          int not null,
  confidence    real not null check (confidence between 0 and 1),
  words         tsvector not null,
  unique (extraction_id, ordinal)
);
create index facts_version on penstock.facts (version_id);
create index facts_collection on penstock.facts (collection_id);  -- for requests: below row-level security only = is looked up first
create index facts_words on penstock.facts using gin (words);

-- Whose word endings are ignored; plain words where PostgreSQL does not know the language.
create function penstock.text_language(name text) returns regconfig language sql stable as $$
  select coalesce(
    (select oid::regconfig from pg_ts_config where cfgname = name and cfgnamespace = 'pg_catalog'::regnamespace),
    'pg_catalog.simple'::regconfig
  )
$$;

-- Things that facts are about, each once for a collection. `key` is what all spellings of its name have in common.
create table penstock.entities (
  id            bigint generated always as identity primary key,
  tenant        text not null default 'default',
  collection_id int not null references penstock.collections,
  type          text not null,
  key           text not null check (key <> ''),
  name          text not null check (char_length(name) between 1 and 200),
  unique (collection_id, type, key)
);

create table penstock.mentions (
  fact_id   bigint not null references penstock.facts on delete cascade,
  entity_id bigint not null references penstock.entities,
  role      text not null check (role in ('about', 'from', 'to')),
  primary key (fact_id, entity_id, role)
);
create index mentions_entity on penstock.mentions (entity_id);

-- Who adds mentions or removes them does it alone in a collection, until its commit.
create function penstock.hold_entities(collection int) returns void language sql as $$
  select pg_advisory_xact_lock(hashtext('penstock entities'), collection)
$$;

-- An entity goes with its last mention, whoever removes that: by hand, by a bite, or by the removal of a version.
create function penstock.forget_entities() returns trigger language plpgsql as $$
declare
  one int;
begin
  for one in select distinct collection_id from penstock.entities where id in (select entity_id from gone) order by 1 loop
    perform penstock.hold_entities(one);
  end loop;
  delete from penstock.entities as entity
  where entity.id in (select entity_id from gone)
    and not exists (select from penstock.mentions where mentions.entity_id = entity.id);
  return null;
end $$;
create trigger forget_entities after delete on penstock.mentions referencing old table as gone
  for each statement execute function penstock.forget_entities();

-- What was read in a version that another one has replaced is old. Of a deleted document it stays, for who restores it.
create function penstock.facts_follow_document() returns trigger language plpgsql as $$
begin
  update penstock.extractions set state = 'old'
  where document_id = new.id and state <> 'old' and version_id <> new.live_id;
  return null;
end $$;
create trigger facts_follow_document after update of live_id on penstock.documents
  for each row when (old.live_id <> new.live_id)
  execute function penstock.facts_follow_document();

select penstock.guard('penstock.extractions', 'tenant = current_setting(''penstock.tenant'')', false),
  penstock.guard('penstock.extraction_windows', 'exists (select from penstock.versions where versions.id = version_id)', false),
  penstock.guard('penstock.facts', 'tenant = current_setting(''penstock.tenant'')', false),
  penstock.guard('penstock.entities', 'tenant = current_setting(''penstock.tenant'')', false),
  penstock.guard('penstock.mentions', 'exists (select from penstock.facts where facts.id = fact_id)', false);

-- -- memos --------------------------------------------------------------------------------------------------------------
--
-- Conversations, and what is worth remembering of them.
--
--   post ─▶ messages behind `done` ── memo.batch ─▶ live ─┬─ says the same as an older one ─▶ merged
--                                                         └─ is contradicted by a newer one ─▶ superseded
--
-- Messages are numbered from 1 on, under the lock of their stream's row. Memos have been made of those up to `done`: who makes
-- them moves it from the number at which it began, in the transaction that writes them, so that of two who try one writes nothing.

create table penstock.streams (
  id          bigint generated always as identity primary key,
  tenant      text not null default 'default',
  name        text not null check (octet_length(name) between 1 and 200),
  last        bigint not null default 0,   -- the number of its newest message
  done        bigint not null default 0,   -- up to here memos have been made
  waits_since timestamptz,                 -- while there are messages behind `done`
  created_at  timestamptz not null default penstock.now(),
  posted_at   timestamptz,
  deleted_at  timestamptz,                 -- from then on nobody sees it, and a job removes it
  constraint done_is_not_ahead check (done between 0 and last),
  constraint waits_while_it_is_behind check ((waits_since is not null) = (last > done))
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
create unique index streams_name on penstock.streams (tenant, name) where deleted_at is null;
create index streams_waiting on penstock.streams (waits_since, id) where waits_since is not null and deleted_at is null;
create index streams_posted on penstock.streams (tenant, posted_at) where deleted_at is null;
create index streams_deleted on penstock.streams (id) where deleted_at is not null;

create table penstock.messages (
  stream_id   bigint not null references penstock.streams,
  seq         bigint not null,             -- its number in the stream
  tenant      text not null default 'default',
  message_id  text not null check (octet_length(message_id) between 1 and 1000),  -- the sender's
  author      text not null,
  text        text not null,
  at          timestamptz,                 -- as the sender says
  received_at timestamptz not null default penstock.now(),
  primary key (stream_id, seq)
);
create unique index messages_message_id on penstock.messages (stream_id, message_id);

-- merged_into and superseded_by have no key: a stream is removed in bites, in whose middle they may point to nothing.
create table penstock.memos (
  id            bigint generated always as identity primary key,
  tenant        text not null default 'default',
  stream_id     bigint not null references penstock.streams,
  text          text not null,
  kind          text not null,
  confidence    real not null check (confidence between 0 and 1),
  state         text not null default 'live' check (state in ('live', 'merged', 'superseded')),
  merged_into   bigint,
  superseded_by bigint,
  words         tsvector not null,
  llm           text not null,             -- who wrote it
  job_id        bigint not null,           -- in which batch
  created_at    timestamptz not null default penstock.now(),
  changed_at    timestamptz not null default penstock.now(),
  constraint merged_into_another check ((state = 'merged') = (merged_into is not null)),
  constraint superseded_by_another check ((state = 'superseded') = (superseded_by is not null))
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);
create index memos_stream on penstock.memos (stream_id, state, id);
create index memos_tenant on penstock.memos (tenant, id);
create index memos_words on penstock.memos using gin (words);
create index memos_superseded on penstock.memos (superseded_by) where superseded_by is not null;

-- What a memo was made of. One that was merged into another has given that one its messages, and keeps its own.
create table penstock.memo_messages (
  memo_id   bigint not null references penstock.memos on delete cascade,
  seq       bigint not null,
  stream_id bigint not null,
  tenant    text not null default 'default',
  primary key (memo_id, seq),
  foreign key (stream_id, seq) references penstock.messages on delete cascade
);
create index memo_messages_message on penstock.memo_messages (stream_id, seq);

select penstock.guard('penstock.streams', 'tenant = current_setting(''penstock.tenant'')', true),
  penstock.guard('penstock.messages', 'tenant = current_setting(''penstock.tenant'')', true),
  penstock.guard('penstock.memos', 'tenant = current_setting(''penstock.tenant'')', true),
  penstock.guard('penstock.memo_messages', 'tenant = current_setting(''penstock.tenant'')', true);

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

-- -- jobs ---------------------------------------------------------------------------------------------------------------

-- Permits by the will of a person (`penstock limits set`), which count in place of those that workers declare.
alter table penstock.limits add column chosen int check (chosen > 0);
