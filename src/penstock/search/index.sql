-- name: hide_version
-- From its first row on. A version that is live already would be shown by mistake if its row were missing, never the other way.
insert into penstock.hidden_versions (version_id, collection_id) values (:version, :collection) on conflict do nothing

-- name: is_live
select exists (select from penstock.documents where live_id = :version)

-- name: collection_of
-- Of a version that has rows and is not live.
select collection_id from penstock.hidden_versions where version_id = :version

-- name: remove_chunks
with removed as (
  delete from penstock.chunks
  where version_id = :version
    and ordinal = any (array(select ordinal from penstock.chunks where version_id = :version order by ordinal limit :most::int))
  returning 1
)
select count(*)::int from removed

-- name: forget_version
-- Nothing of it is left, so nothing has to be hidden.
delete from penstock.hidden_versions where version_id = :version
