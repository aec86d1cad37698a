-- A page of waiting lanes, by group, topic, partition and lane, after one of them; with `lane` those of one key, also where
-- a record of it is retried alone. Walks the primary key: the cross joins keep SQLite from another order.
SELECT l.group_id, l.topic_id, l.partition, l.lane, g.name, t.name, l.held, l.failures, l.due_ms, l.reason
FROM penstock_lane l
CROSS JOIN penstock_group g ON g.id = l.group_id
CROSS JOIN penstock_topic t ON t.id = l.topic_id
WHERE (l.group_id, l.topic_id, l.partition, l.lane) > (:after_group, :after_topic, :after_partition, :after_lane)
  AND (:group_id IS NULL OR l.group_id = :group_id)
  AND (:topic_id IS NULL OR l.topic_id = :topic_id)
  AND (:held IS NULL OR l.held = :held)
  AND (:lane IS NULL OR l.lane = :lane
       OR (l.lane GLOB '#[0-9]*' AND substr(l.lane, instr(substr(l.lane, 2), '#') + 2) = :lane))
ORDER BY l.group_id, l.topic_id, l.partition, l.lane
LIMIT :limit;
