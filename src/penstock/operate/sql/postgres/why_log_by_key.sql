-- The records of a key within a range of offsets of a partition, in order; walks the primary key, locks nothing.
SELECT partition, "offset", id, key, type, timestamp_ms FROM penstock_log
WHERE topic_id = %(topic_id)s AND partition = %(partition)s AND "offset" >= %(start)s AND "offset" < %(end)s AND key = %(key)s
ORDER BY "offset" LIMIT %(limit)s;
