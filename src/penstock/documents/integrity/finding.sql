-- name: begin_check
insert into penstock.checks as known (name) values (:name)
on conflict (name) do update set looked_at = penstock.now()
returning cursor

-- name: end_page
-- Only the run that began where the last page ended: two concurrent runs would count one page twice.
update penstock.checks
set cursor = :last::jsonb, subjects = checks.subjects + :subjects, looked_at = penstock.now(),
  round = round + (:last::jsonb is null)::int,
  ended_at = case when :last::jsonb is null then penstock.now() else ended_at end,
  begun_at = case when :seen::jsonb is null then penstock.now() else begun_at end
where name = :name and cursor is not distinct from :seen::jsonb
returning name

-- name: touch_check
insert into penstock.checks as known (name, subjects) values (:name, :subjects)
on conflict (name) do update set looked_at = penstock.now(), subjects = known.subjects + excluded.subjects

-- name: list_open
select subject from penstock.findings
where check_name = :name and ended_at is null
group by subject order by min(seen_at) limit :most

-- name: note_found
-- A row that is new has never been updated: its xmax is 0.
with noted as (
  insert into penstock.findings as finding (tenant, check_name, subject, document_id, sentence, advice)
  select tenant, :name, subject, document_id, sentence, advice
  from unnest(:subjects::bigint[], :documents::bigint[], :tenants::text[], :sentences::text[], :advices::text[])
    as found(subject, document_id, tenant, sentence, advice)
  order by subject, document_id
  on conflict (check_name, subject, document_id) where ended_at is null do update
    set seen = finding.seen + 1, seen_at = penstock.now(), sentence = excluded.sentence, advice = excluded.advice
  returning id, subject, document_id, repaired_at is not null as tried, xmax = 0 as new
),
counted as (
  update penstock.checks set found = found + (select count(*) from noted where new) where name = :name
)
select id, subject, document_id, tried from noted order by id

-- name: note_repair
with repaired as (
  update penstock.findings
  set repair = :said, repaired_at = penstock.now(), ended_at = case when :complete::boolean then penstock.now() end
  where id = :finding and repaired_at is null
  returning id
)
update penstock.checks set repaired = repaired + (select count(*) from repaired) where name = :name

-- name: end_gone
update penstock.findings as finding set ended_at = penstock.now()
where check_name = :name and subject = any (:subjects::bigint[]) and ended_at is null
  and not exists (
    select from unnest(:still::bigint[], :documents::bigint[]) as still(subject, document_id)
    where still.subject = finding.subject and still.document_id is not distinct from finding.document_id
  )

-- name: sweep_findings
with old as (
  select id from penstock.findings where ended_at < penstock.now() - make_interval(days => :days) order by ended_at limit :batch
),
swept as (
  delete from penstock.findings where id = any (array(select id from old)) returning id
)
select count(*)::int from swept
