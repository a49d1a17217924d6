-- The one clock: every stored time comes from here, so that processes on machines with different clocks agree, and a test
-- can move time for all of them by replacing this function. Stable within a statement, so the planner may use it in an
-- index condition.
create function penstock.now() returns timestamptz
  language sql stable parallel safe
  as 'select statement_timestamp()';
