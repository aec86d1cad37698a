-- Remove some of a deleted topic's records; walks the primary key.
DELETE FROM penstock_log WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM penstock_log WHERE topic_id = %(topic_id)s LIMIT %(limit)s));
