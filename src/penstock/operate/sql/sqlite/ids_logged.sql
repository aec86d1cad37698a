-- The ids and keys of a partition's records before an offset; walks the primary key.
SELECT id, key FROM penstock_log WHERE topic_id = :topic_id AND partition = :partition AND "offset" < :end;
