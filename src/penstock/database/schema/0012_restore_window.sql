-- A deleted collection can be restored until this time; null when it cannot, or when it is not deleted.
alter table penstock.collections add column restorable_until timestamptz;
