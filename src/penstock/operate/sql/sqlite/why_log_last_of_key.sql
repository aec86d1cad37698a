-- The last record of a key within a range of offsets of a partition; walks the primary key backwards.
SELECT partition, "offset", id, key, type, timestamp_ms FROM penstock_log
WHERE topic_id = :topic_id AND partition = :partition AND "offset" >= :start AND "offset" < :end AND key = :key
ORDER BY "offset" DESC LIMIT 1;
