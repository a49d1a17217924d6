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

-- -- jobs ---------------------------------------------------------------------------------------------------------------

-- Permits by the will of a person (`penstock limits set`), which count in place of those that workers declare.
alter table penstock.limits add column chosen int check (chosen > 0);
