-- Lock some heads, always in this order (any other order deadlocks), and read their next offsets; walks the primary key.
SELECT h.topic_id, h.partition, h.next_offset, h.max_ms
FROM unnest(%(topic_ids)s::integer[], %(partitions)s::integer[]) AS w (topic_id, partition)
JOIN penstock_head h ON h.topic_id = w.topic_id AND h.partition = w.partition
ORDER BY h.topic_id, h.partition
FOR UPDATE OF h;
