-- Write down which record is tried, before it is, in a partition whose owner crashed; the count of crashes begins anew for
-- another record. Only as the owner in this epoch and version. Walks the primary key, locks that row.
UPDATE penstock_cursor
SET trying = %(offset)s, crashes = CASE WHEN trying IS NULL OR trying = %(offset)s THEN crashes ELSE 1 END
WHERE group_id = %(group_id)s AND topic_id = %(topic_id)s AND partition = %(partition)s
  AND owner = %(owner)s AND epoch = %(epoch)s AND version = %(version)s;
