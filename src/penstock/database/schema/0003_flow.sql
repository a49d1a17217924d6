-- The engine's second half: steps that are kept, fan-out, schedules, limits, and how many connections a worker may use.
--
--   running ── map ─▶ waiting ── last child ended ─▶ ready
--   a child whose turn has not come (map's `limit`) is `waiting`, too: for its own fan-out

-- -- steps --------------------------------------------------------------------------------------------------------------

-- What a step has returned, until its scope is over.
create table penstock.checkpoints (
  scope   text not null,
  step    text not null,
  version int not null,
  digest  bytea not null,  -- of the step's input
  job_id  bigint not null, -- who wrote it last
  own     boolean not null,  -- the scope is this job alone, and ends with it
  format  text not null check (format in ('json', 'bytes')),
  content bytea not null,
  seconds real not null,   -- what it took to compute
  made_at timestamptz not null default penstock.now(),
  primary key (scope, step, version, digest)
);
-- It is compressed already.
alter table penstock.checkpoints alter column content set storage external;
create index checkpoints_job on penstock.checkpoints (job_id) where own;
create index checkpoints_age on penstock.checkpoints (made_at) where not own;

-- -- fan-out ------------------------------------------------------------------------------------------------------------

-- One `ctx.map` of one parent. `unfinished` counts the children that are alive and not dead, whatever the parent does:
-- who ends a child counts down in the same transaction, after its own rows and before the parent's. Deleted after the
-- parent's end.
create table penstock.fanouts (
  id         bigint generated always as identity primary key,
  parent     bigint not null,
  name       text not null,
  digest     bytea not null,  -- of the calls
  code       text not null,   -- the code that made the calls
  total      int not null check (total > 0),
  unfinished int not null,
  at_once    int check (at_once > 0),
  begun_at   timestamptz not null default penstock.now(),
  constraint counted_within_bounds check (unfinished between 0 and total),
  unique (parent, name)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

alter table penstock.jobs
  add column fanout    bigint,  -- the fan-out whose child this is
  add column turn      int,     -- its place in the list of calls
  add column waits_for bigint,  -- a parent: for all of these children; a child: for its turn among them
  add constraint child_with_a_turn check ((fanout is null) = (turn is null)),
  add constraint waiting_for_something check ((state = 'waiting') = (waits_for is not null));
create index jobs_waiting on penstock.jobs (waits_for, id) where state = 'waiting';
create index jobs_children on penstock.jobs (fanout, turn) where fanout is not null;

alter table penstock.job_history
  add column fanout bigint,
  add column turn   int;
create index job_history_fanout on penstock.job_history (fanout) where fanout is not null;

-- -- schedules ----------------------------------------------------------------------------------------------------------

-- Keyed by name and share, never null: however often a schedule is declared, there is one of it.
create table penstock.schedules (
  name        text not null,
  share       text not null,
  rule        text not null,   -- a cron expression, or `every 5m`
  timezone    text not null,
  queue       text not null,
  kind        text not null,
  args        json not null,
  missed      text not null check (missed in ('skip', 'one', 'all')),
  overlap     text not null check (overlap in ('allow', 'skip')),
  origin      text not null check (origin in ('code', 'api')),
  declared_at timestamptz not null default penstock.now(),  -- the last time that somebody did
  next_at     timestamptz,     -- null: never again, a rule such as 30 February
  last_at     timestamptz,     -- the last tick that was fired
  last_job    bigint,
  fired       bigint not null default 0,
  skipped     bigint not null default 0,
  paused_at   timestamptz,
  retired_at  timestamptz,
  primary key (name, share)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
create index schedules_due on penstock.schedules (next_at) where paused_at is null and retired_at is null;

-- -- limits -------------------------------------------------------------------------------------------------------------

-- A dependency that bears only so many calls at once, over the whole fleet, and its breaker.
create table penstock.limits (
  name       text primary key,
  permits    int not null check (permits > 0),
  failures   int not null default 0,    -- in a row, as last reported
  trips      int not null default 0,    -- in a row, without a success: each rest is longer than the one before
  opened_at  timestamptz,               -- not null: the breaker is open, or half open while somebody probes
  rests_till timestamptz,
  reason     text,
  probe_by   bigint,                    -- the worker whose next call decides
  probe_till timestamptz,
  constraint open_with_a_reason check ((opened_at is null) = (reason is null)),
  constraint rests_while_open check ((opened_at is null) = (rests_till is null))
);

-- What a kind needs of the limits while one of its jobs runs.
create table penstock.uses (
  kind       text not null,
  limit_name text not null,
  amount     int not null check (amount > 0),
  primary key (kind, limit_name)
);

-- The part of a limit that a worker may use. The sum over the live workers is never more than the limit's permits.
create table penstock.allotments (
  limit_name text not null,
  worker_id  bigint not null,
  granted    int not null check (granted >= 0),
  used       int not null,
  waiting    int not null,
  level      real not null,
  need       int not null default 1,  -- the most that one caller takes at once: less would be of no use
  told_at    timestamptz not null default penstock.now(),
  primary key (limit_name, worker_id)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- -- connections --------------------------------------------------------------------------------------------------------

-- How many connections this worker may open at most; 0 for a release that did not say.
alter table penstock.workers add column connections int not null default 0;

-- -- admission ----------------------------------------------------------------------------------------------------------

-- What waits in a lane for its time counts to its depth. Plain jobs are never in it.
create index jobs_later_lane on penstock.jobs (lane) where state = 'later';

-- -- what is kept -------------------------------------------------------------------------------------------------------

-- Old rows that are in no day's partition are deleted one by one.
create index job_history_rest_age on penstock.job_history_rest (finished_at);
