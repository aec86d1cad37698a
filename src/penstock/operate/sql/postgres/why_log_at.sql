-- The record at an offset, without what it holds; walks the primary key, locks nothing.
SELECT partition, "offset", id, key, type, timestamp_ms FROM penstock_log
WHERE topic_id = %(topic_id)s AND partition = %(partition)s AND "offset" = %(offset)s;
