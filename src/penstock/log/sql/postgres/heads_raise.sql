-- Raise heads by what was added to them; their locks are held already.
UPDATE penstock_head h
SET next_offset = h.next_offset + w.count, max_ms = greatest(h.max_ms, w.max_ms)
FROM unnest(%(topic_ids)s::integer[], %(partitions)s::integer[], %(counts)s::bigint[], %(max_ms)s::bigint[])
     AS w (topic_id, partition, count, max_ms)
WHERE h.topic_id = w.topic_id AND h.partition = w.partition;
