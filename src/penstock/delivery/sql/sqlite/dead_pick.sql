-- The places of a group's dead letters, in the order of the log, after one of them; walks the primary key. A hint, to be
-- looked at again in the transaction that acts.
SELECT topic_id, partition, "offset", holding FROM penstock_dead
WHERE group_id = :group_id
  AND (topic_id, partition, "offset") > (:after_topic, :after_partition, :after_offset)
  AND (:topic_id IS NULL OR topic_id = :topic_id)
  AND (:id IS NULL OR id = :id)
  AND (:key IS NULL OR key = :key)
  AND (:type IS NULL OR type = :type)
  AND (:since_ms IS NULL OR died_ms >= :since_ms)
  AND (:before_ms IS NULL OR died_ms < :before_ms)
ORDER BY topic_id, partition, "offset"
LIMIT :limit;
