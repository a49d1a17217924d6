-- Reconcile: what checks have looked at, and what they have found (documents/checks).
--
-- A check goes over its subjects in pages, and over all of them in a round; then it starts over.
create table penstock.checks (
  name      text primary key,
  cursor    jsonb,                       -- the last subject of the last page; null: the next page is the first one
  round     int not null default 0,      -- those that are complete
  begun_at  timestamptz not null default penstock.now(),  -- the present round
  ended_at  timestamptz,                 -- the last complete round
  looked_at timestamptz not null default penstock.now(),  -- the last page
  subjects  bigint not null default 0,   -- looked at, in all rounds
  found     bigint not null default 0,
  repaired  bigint not null default 0
);

-- Something that should not be. It is open until a look finds it gone.
create table penstock.findings (
  id          bigint generated always as identity primary key,
  tenant      text not null default 'default',
  check_name  text not null,
  subject     bigint not null,           -- the number of what was looked at: a blob, a version, a document, a collection
  document_id bigint,                    -- which people would know it by
  sentence    text not null,
  advice      text not null,             -- what a person can do
  repair      text,                      -- what was done about it
  seen        int not null default 1,    -- looks that have found it
  found_at    timestamptz not null default penstock.now(),
  seen_at     timestamptz not null default penstock.now(),
  repaired_at timestamptz,               -- when something was done; the next looks say whether it has helped
  ended_at    timestamptz,
  constraint repaired_by_something check ((repaired_at is null) = (repair is null))
);
create unique index findings_open on penstock.findings (check_name, subject, document_id) nulls not distinct where ended_at is null;
create index findings_document on penstock.findings (document_id, check_name) where document_id is not null;
create index findings_repaired on penstock.findings (repaired_at) where repaired_at is not null;
create index findings_ended on penstock.findings (ended_at) where ended_at is not null;

-- For who looks through the documents that wait, in pages.
create index documents_queued on penstock.documents (id) where state = 'queued';
-- For who looks through those that are deleted, and for members that a deletion has left behind.
create index documents_deleted on penstock.documents (deleted_at, id) where deleted_at is not null;
