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

-- -- another index ------------------------------------------------------------------------------------------------------
