-- A page of the log by topic, partition and offset: what some group has yet to pass (pending), or what every group has
-- passed, and none has waiting or dead. Walks the heads and for each, once (LATERAL, LIMIT), the log's primary key; locks
-- nothing.
SELECT l.topic_id, l.partition, l."offset", t.name, l.id, l.key, l.type, l.timestamp_ms
FROM (
    SELECT h.topic_id, h.partition, h.start_offset, h.next_offset,
           greatest(h.start_offset, (
               SELECT min(c."offset") FROM penstock_group g
               JOIN penstock_cursor c ON c.group_id = g.id AND c.topic_id = h.topic_id AND c.partition = h.partition)) AS passed
    FROM penstock_head h
    WHERE h.start_offset < h.next_offset
      AND (h.topic_id, h.partition) >= (%(after_topic)s::integer, %(after_partition)s::integer)
      AND (%(topic_id)s::integer IS NULL OR h.topic_id = %(topic_id)s::integer)) AS h
JOIN penstock_topic t ON t.id = h.topic_id
CROSS JOIN LATERAL (
    SELECT r.* FROM penstock_log r
    WHERE r.topic_id = h.topic_id AND r.partition = h.partition
      AND r."offset" >= CASE WHEN %(pending)s THEN h.passed ELSE h.start_offset END
      AND r."offset" < CASE WHEN %(pending)s THEN h.next_offset ELSE h.passed END
      AND (r.topic_id, r.partition, r."offset")
          > (%(after_topic)s::integer, %(after_partition)s::integer, %(after_offset)s::bigint)
      AND (%(pending)s OR NOT EXISTS (
          SELECT 1 FROM penstock_group g
          LEFT JOIN penstock_lane_entry e ON e.group_id = g.id AND e.topic_id = r.topic_id
           AND e.partition = r.partition AND e."offset" = r."offset"
          LEFT JOIN penstock_dead d ON d.group_id = g.id AND d.topic_id = r.topic_id
           AND d.partition = r.partition AND d."offset" = r."offset"
          WHERE e."offset" IS NOT NULL OR d."offset" IS NOT NULL))
    ORDER BY r."offset" LIMIT %(limit)s) AS l
ORDER BY l.topic_id, l.partition, l."offset"
LIMIT %(limit)s;
