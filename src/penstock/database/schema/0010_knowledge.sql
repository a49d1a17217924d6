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
