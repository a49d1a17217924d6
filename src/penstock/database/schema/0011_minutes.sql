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
