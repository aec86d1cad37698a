-- The partitions of a topic that hold something: start, end, the slowest cursor of the groups that were seen lately (NULL:
-- there is none), and the time of the oldest record. Walks the heads, and for each the primary keys (cross join).
SELECT h.partition, h.start_offset, h.next_offset,
       (SELECT min(c."offset") FROM penstock_group g
        CROSS JOIN penstock_cursor c ON c.group_id = g.id AND c.topic_id = h.topic_id AND c.partition = h.partition
        WHERE max(g.seen_ms, g.created_ms) >= :seen_since),
       (SELECT l.timestamp_ms FROM penstock_log l
        WHERE l.topic_id = h.topic_id AND l.partition = h.partition AND l."offset" >= h.start_offset
        ORDER BY l."offset" LIMIT 1)
FROM penstock_head h
WHERE h.topic_id = :topic_id AND h.start_offset < h.next_offset
ORDER BY h.partition;
