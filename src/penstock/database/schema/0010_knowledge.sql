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
