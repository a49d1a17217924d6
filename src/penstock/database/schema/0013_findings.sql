-- When a document that could not be read was dismissed: it stays failed, and is not listed as unread any more.
alter table penstock.documents add column dismissed_at timestamptz;

create function penstock.end_dismissal() returns trigger language plpgsql as $$
begin
  new.dismissed_at := null;
  return new;
end $$;

-- A document that is tried again, replaced or fails for another reason is news. The condition costs nothing for all others.
create trigger end_dismissal before update of state, error on penstock.documents
  for each row when (old.dismissed_at is not null and (new.state <> 'failed' or new.error is distinct from old.error))
  execute function penstock.end_dismissal();

-- Findings of `penstock doctor` that an operator knows of: not red until `until`, or until there are more than `count` of them.
create table penstock.acknowledgements (
  finding         text not null,
  subject         text not null,  -- what it is about, such as a source or a cause; empty if there is only one of its name
  count           bigint not null,
  until           timestamptz not null,
  acknowledged_at timestamptz not null default penstock.now(),
  acknowledged_by text not null,
  primary key (finding, subject)
);
