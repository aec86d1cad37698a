-- A page of a group's cursors, by topic and partition, after one of them; walks the primary keys.
SELECT c.topic_id, c.partition, t.name, c."offset", h.next_offset, c.passed, c.owner, c.owner_wanted, c.epoch, c.crashes
FROM penstock_cursor c
CROSS JOIN penstock_topic t ON t.id = c.topic_id
CROSS JOIN penstock_head h ON h.topic_id = c.topic_id AND h.partition = c.partition
WHERE c.group_id = :group_id
  AND (c.topic_id, c.partition) > (:after_topic, :after_partition)
  AND (:topic_id IS NULL OR c.topic_id = :topic_id)
ORDER BY c.topic_id, c.partition
LIMIT :limit;
