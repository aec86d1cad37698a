-- The record at an offset, without what it holds; walks the primary key.
SELECT partition, "offset", id, key, type, timestamp_ms FROM penstock_log
WHERE topic_id = :topic_id AND partition = :partition AND "offset" = :offset;
