-- A page of dead letters, the newest first, after a place in that order; walks ix_penstock_dead_died backwards: the cross
-- joins keep SQLite from walking the groups or the topics first.
SELECT d.died_ms, d.group_id, d.topic_id, d.partition, d."offset", g.name, t.name, d.id, d.key, d.type, d.failures,
       d.reason, d.holding, d.reset_ms, d.timestamp_ms
FROM penstock_dead d
CROSS JOIN penstock_group g ON g.id = d.group_id
CROSS JOIN penstock_topic t ON t.id = d.topic_id
WHERE (d.died_ms, d.group_id, d.topic_id, d.partition, d."offset")
      < (:died_ms, :after_group, :after_topic, :after_partition, :after_offset)
  AND (:group_id IS NULL OR d.group_id = :group_id)
  AND (:topic_id IS NULL OR d.topic_id = :topic_id)
  AND (:id IS NULL OR d.id = :id)
  AND (:key IS NULL OR d.key = :key)
  AND (:type IS NULL OR d.type = :type)
  AND (:since_ms IS NULL OR d.died_ms >= :since_ms)
  AND (:before_ms IS NULL OR d.died_ms < :before_ms)
ORDER BY d.died_ms DESC, d.group_id DESC, d.topic_id DESC, d.partition DESC, d."offset" DESC
LIMIT :limit;
