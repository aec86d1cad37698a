-- The records of a key within a range of offsets of a partition, in order; walks the primary key.
SELECT partition, "offset", id, key, type, timestamp_ms FROM penstock_log
WHERE topic_id = :topic_id AND partition = :partition AND "offset" >= :start AND "offset" < :end AND key = :key
ORDER BY "offset" LIMIT :limit;
