-- A page of the records that wait in lanes, by group, topic, partition and offset; walks the primary keys (cross joins).
-- A record that retention has deleted from the log is read from its copy.
SELECT e.group_id, e.topic_id, e.partition, e."offset", t.name, coalesce(e.id, l.id), coalesce(e.key, l.key),
       coalesce(e.type, l.type), coalesce(e.timestamp_ms, l.timestamp_ms), g.name
FROM penstock_lane_entry e
CROSS JOIN penstock_group g ON g.id = e.group_id
CROSS JOIN penstock_topic t ON t.id = e.topic_id
LEFT JOIN penstock_log l ON e.id IS NULL AND l.topic_id = e.topic_id AND l.partition = e.partition AND l."offset" = e."offset"
WHERE (e.group_id, e.topic_id, e.partition, e."offset") > (:after_group, :after_topic, :after_partition, :after_offset)
  AND (:topic_id IS NULL OR e.topic_id = :topic_id)
  AND (:group_id IS NULL OR e.group_id = :group_id)
  AND coalesce(e.id, l.id) IS NOT NULL
ORDER BY e.group_id, e.topic_id, e.partition, e."offset"
LIMIT :limit;
