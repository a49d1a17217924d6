-- The field's words for what earlier steps called share, beat, suspect, level and plan. Nothing but names changes. A rename does
-- not expand first: it comes before the first release, and code of the step before stops with a sentence.
alter table penstock.lanes rename column share to fairness_key;
alter table penstock.schedules rename column share to fairness_key;
alter table penstock.shares rename to fairness_weights;
alter table penstock.pauses drop constraint pauses_what_check;
update penstock.pauses set what = 'fairness_key' where what = 'share';
alter table penstock.pauses add constraint pauses_what_check check (what in ('queue', 'kind', 'fairness_key'));

alter table penstock.workers rename column beat_at to heartbeat_at;
alter table penstock.workers rename column unlocked_at_beat to unlocked_at_heartbeat;
alter table penstock.jobs rename column suspect to quarantined;
alter index penstock.jobs_suspect rename to jobs_quarantined;
alter table penstock.allotments rename column level to concurrency;

alter table penstock.extractions rename column plan to config;
alter table penstock.extraction_windows rename column plan to config;
