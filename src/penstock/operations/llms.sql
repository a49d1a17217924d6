-- name: waiting_for_llm
-- Jobs that came to their question and found no model; each looks again after a while.
select count(*) as count, min(id) as oldest from penstock.jobs where state = 'later' and error ->> 'type' = 'NoModel'
