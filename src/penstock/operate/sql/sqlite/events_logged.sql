-- A page of the log by topic, partition and offset: what some group has yet to pass (pending), or what every group has
-- passed, and none has waiting or dead. Walks the heads and for each the log's primary key (cross joins).
WITH heads AS MATERIALIZED (
    SELECT h.topic_id, h.partition, h.start_offset, h.next_offset,
           max(h.start_offset, coalesce((
               SELECT min(c."offset") FROM penstock_group g
               CROSS JOIN penstock_cursor c
               WHERE c.group_id = g.id AND c.topic_id = h.topic_id AND c.partition = h.partition), h.start_offset)) AS passed
    FROM penstock_head h
    WHERE h.start_offset < h.next_offset AND (h.topic_id, h.partition) >= (:after_topic, :after_partition)
      AND (:topic_id IS NULL OR h.topic_id = :topic_id)
    ORDER BY h.topic_id, h.partition
)
SELECT r.topic_id, r.partition, r."offset", t.name, r.id, r.key, r.type, r.timestamp_ms
FROM heads h
CROSS JOIN penstock_topic t
CROSS JOIN penstock_log r
WHERE t.id = h.topic_id AND r.topic_id = h.topic_id AND r.partition = h.partition
  AND r."offset" >= CASE WHEN :pending THEN h.passed ELSE h.start_offset END
  AND r."offset" < CASE WHEN :pending THEN h.next_offset ELSE h.passed END
  AND (r.topic_id, r.partition, r."offset") > (:after_topic, :after_partition, :after_offset)
  AND (:pending OR NOT EXISTS (
      SELECT 1 FROM penstock_group g
      LEFT JOIN penstock_lane_entry e ON e.group_id = g.id AND e.topic_id = r.topic_id
       AND e.partition = r.partition AND e."offset" = r."offset"
      LEFT JOIN penstock_dead d ON d.group_id = g.id AND d.topic_id = r.topic_id
       AND d.partition = r.partition AND d."offset" = r."offset"
      WHERE e."offset" IS NOT NULL OR d."offset" IS NOT NULL))
ORDER BY r.topic_id, r.partition, r."offset"
LIMIT :limit;
