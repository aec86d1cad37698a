-- The last record of a key within a range of offsets of a partition; walks the primary key backwards, locks nothing.
SELECT partition, "offset", id, key, type, timestamp_ms FROM penstock_log
WHERE topic_id = %(topic_id)s AND partition = %(partition)s AND "offset" >= %(start)s AND "offset" < %(end)s AND key = %(key)s
ORDER BY "offset" DESC LIMIT 1;
