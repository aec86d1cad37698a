-- A page of the topics, by name, after one of them; walks the unique index on name, and the heads' primary key.
SELECT t.name, t.id, t.partitions, t.created_ms, t.retention_ms, t.retention_bytes, t.retention_records,
       coalesce((SELECT sum(h.next_offset - h.start_offset) FROM penstock_head h WHERE h.topic_id = t.id), 0)
FROM penstock_topic t
WHERE t.name > %(after)s
ORDER BY t.name
LIMIT %(limit)s;
