-- The inbox: messages of other systems, and how far each source has been read. Packets: documents that belong together.
--
--   a source ─▶ waiting ── its job takes it: a document or a packet ─▶ taken
--                  └────── its job dies, is cancelled or discarded ─▶ failed ── redrive ─▶ waiting
--
-- A batch of messages, their jobs and the position of the source are one transaction. A message that came before is the same
-- row, whoever brings it again.

create table penstock.inbox (
  id          bigint primary key default nextval('penstock.jobs_id_seq'),  -- the document or packet that it becomes has this number, too
  tenant      text not null default 'default',
  source      text not null,
  message_id  text not null check (octet_length(message_id) between 1 and 1000),
  number      int not null default 1,       -- 2: the same message came with other content
  digest      bytea not null check (octet_length(digest) = 32),  -- of the payload
  payload     json,                         -- until it is taken; json and not jsonb: it may hold any character
  state       text not null default 'waiting' check (state in ('waiting', 'taken', 'failed')),
  job_id      bigint,
  document_id bigint,                       -- what it became, until that is removed
  error       jsonb,                        -- class, message, step
  repeats     int not null default 0,       -- how often it came again as it was
  conflicts   int not null default 0,       -- how often it came with other content, and was refused
  received_at timestamptz not null default penstock.now(),
  changed_at  timestamptz not null default penstock.now(),
  told        text not null default '' check (told in ('', 'ready', 'failed', 'never')),  -- what its source was told last
  constraint failed_with_a_reason check ((state = 'failed') = (error is not null)),
  constraint kept_until_taken check (state = 'taken' or payload is not null)
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);
create unique index inbox_message on penstock.inbox (source, message_id);
create index inbox_job on penstock.inbox (job_id);
create index inbox_document on penstock.inbox (document_id) where document_id is not null;
create index inbox_unsettled on penstock.inbox (source, id) where state <> 'taken';
create index inbox_untold on penstock.inbox (source, id) where told in ('', 'failed');

-- Bytes that came with a message: the collector leaves them alone until they belong to a document.
create table penstock.inbox_blobs (
  message bigint not null references penstock.inbox on delete cascade,
  blob_id bigint not null references penstock.blobs,
  tenant  text not null default 'default',
  primary key (message, blob_id)
);
create index inbox_blobs_blob on penstock.inbox_blobs (blob_id);

-- How far a source has been read. Who moves `position` shows the `turn` at which it was read: nobody holds a lock while polling.
create table penstock.sources (
  name        text primary key,
  tenant      text not null default 'default',
  position    json,
  turn        bigint not null default 0,
  received    bigint not null default 0,    -- messages that were new
  repeats     bigint not null default 0,
  conflicts   bigint not null default 0,
  polled_at   timestamptz,                  -- the last time that it answered
  swept_at    timestamptz,                  -- the last time that all of it was compared with the inbox
  sweep       json,                         -- where a sweep that is under way goes on
  error       text,                         -- why it does not answer
  error_since timestamptz,
  constraint told_since_when check ((error is null) = (error_since is null))
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.1);

-- A message follows its job, as a document does.
create function penstock.message_follows_job() returns trigger language plpgsql as $$
begin
  if new.state = 'dead' then
    update penstock.inbox set state = 'failed', error = penstock.readable(new.error), changed_at = penstock.now()
    where job_id = new.id and state = 'waiting';
  else
    update penstock.inbox set state = 'waiting', error = null, changed_at = penstock.now()
    where job_id = new.id and state = 'failed';
  end if;
  return null;
end $$;

create function penstock.message_follows_history() returns trigger language plpgsql as $$
begin
  update penstock.inbox set state = 'failed', changed_at = penstock.now(),
    error = coalesce(penstock.readable(new.error), jsonb_build_object('class', 'Cancelled', 'message', new.outcome))
  where job_id = new.id and state <> 'taken';
  return null;
end $$;

create trigger message_follows_job after update of state on penstock.jobs
  for each row when ((old.state = 'dead') <> (new.state = 'dead'))
  execute function penstock.message_follows_job();
create trigger message_follows_history after insert on penstock.job_history
  for each row when (new.outcome <> 'done')
  execute function penstock.message_follows_history();

-- -- packets ------------------------------------------------------------------------------------------------------------
--
-- A packet is a document whose version has rows here. Its bytes are the list of its documents until they are merged, and the
-- consolidated PDF from then on. The documents in it are its members (parent_id), prepared by its job; search finds those.

create table penstock.packets (
  version_id  bigint primary key references penstock.versions on delete cascade,
  document_id bigint not null references penstock.documents,
  tenant      text not null default 'default',
  digest      bytea not null,                  -- of the list of its documents: the same packet again changes nothing
  require_all boolean not null default false,  -- fail, rather than be ready with gaps
  merged_at   timestamptz                      -- from then on the version's bytes are the consolidated PDF
);
create index packets_document on penstock.packets (document_id);

create table penstock.packet_documents (
  version_id     bigint not null references penstock.packets on delete cascade,
  place          int not null,               -- from 0 on, in the order of the packet
  name           text not null,              -- as it came
  member_id      bigint,                     -- the document that it is; null: its bytes could not be had
  member_version bigint,
  first_page     int,                        -- in the consolidated PDF; null: it is not in it
  pages          int not null default 0,
  media_type     text,                       -- as its content says
  gaps           jsonb not null default '[]',  -- [{"page": 3, "reason": "…"}], of its own pages
  reason         text not null default '',   -- why it is not in it
  primary key (version_id, place)
);
create index packet_documents_member on penstock.packet_documents (member_version);

create table penstock.packet_parts (
  version_id bigint not null references penstock.packets on delete cascade,
  first_page int not null,
  last_page  int not null,
  label      text not null,                  -- cover, A, B, other
  confidence real not null check (confidence between 0 and 1),
  primary key (version_id, first_page)
);

select penstock.guard('penstock.inbox', 'tenant = current_setting(''penstock.tenant'')', true),
  penstock.guard('penstock.inbox_blobs', 'tenant = current_setting(''penstock.tenant'')', true),
  penstock.guard('penstock.sources', 'tenant = current_setting(''penstock.tenant'')', true),
  penstock.guard('penstock.packets', 'tenant = current_setting(''penstock.tenant'')', true),
  penstock.guard('penstock.packet_documents', 'exists (select from penstock.packets where packets.version_id = packet_documents.version_id)', true),
  penstock.guard('penstock.packet_parts', 'exists (select from penstock.packets where packets.version_id = packet_parts.version_id)', false);

-- -- minutes ------------------------------------------------------------------------------------------------------------
--
-- What happened to documents, minute by minute: for pages that show a day of it, and must not read a million events to do so.
-- A chart, not a ledger: a worker counts the events again until they are some minutes old (documents/minutes.sql).

create table penstock.minutes (
  tenant        text not null default 'default',
  collection_id int not null,
  minute        timestamptz not null,
  accepted      int not null default 0,
  ready         int not null default 0,
  failed        int not null default 0,
  waiting       int not null default 0,   -- documents that waited for their first claim, when it was looked
  oldest        real not null default 0,  -- for how many seconds the oldest of them had
  primary key (collection_id, minute)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
create index minutes_minute on penstock.minutes (minute, tenant);

-- How far it was counted: minutes before `since` are complete, and no event before `event` belongs to a later one.
create table penstock.minutes_mark (
  only_one boolean primary key default true check (only_one),
  event    bigint not null,
  since    timestamptz not null
);

select penstock.guard('penstock.minutes', 'tenant = current_setting(''penstock.tenant'')', false);

do $$
begin
  if penstock.has_roles() then
    grant select on penstock.minutes_mark to penstock_request;
  end if;
end $$;
