-- Remove some of a deleted topic's records; walks the primary key.
DELETE FROM penstock_log WHERE rowid IN (SELECT rowid FROM penstock_log WHERE topic_id = :topic_id LIMIT :limit);
