-- Write down which record is tried, before it is, in a partition whose owner crashed; the count of crashes begins anew for
-- another record. Only as the owner in this epoch and version. Walks the primary key.
UPDATE penstock_cursor
SET trying = :offset, crashes = CASE WHEN trying IS NULL OR trying = :offset THEN crashes ELSE 1 END
WHERE group_id = :group_id AND topic_id = :topic_id AND partition = :partition
  AND owner = :owner AND epoch = :epoch AND version = :version;
