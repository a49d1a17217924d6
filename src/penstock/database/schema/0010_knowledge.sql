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

-- -- memos --------------------------------------------------------------------------------------------------------------

-- -- another index ------------------------------------------------------------------------------------------------------

-- -- jobs ---------------------------------------------------------------------------------------------------------------

-- Permits by the will of a person (`penstock limits set`), which count in place of those that workers declare.
alter table penstock.limits add column chosen int check (chosen > 0);
