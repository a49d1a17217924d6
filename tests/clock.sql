-- Replaces the clock by one that a test can move for all processes that use this database.
create table penstock.test_clock (shift interval not null);
insert into penstock.test_clock values ('0');
create or replace function penstock.now() returns timestamptz
  language sql stable parallel safe
  as 'select statement_timestamp() + shift from penstock.test_clock';
grant select on penstock.test_clock to public;  -- also for requests, which have a role of their own
