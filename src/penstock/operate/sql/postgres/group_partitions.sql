-- A page of a group's cursors, by topic and partition, after one of them; walks the primary keys, locks nothing.
SELECT c.topic_id, c.partition, t.name, c."offset", h.next_offset, c.passed, c.owner, c.owner_wanted, c.epoch, c.crashes
FROM penstock_cursor c
JOIN penstock_topic t ON t.id = c.topic_id
JOIN penstock_head h ON h.topic_id = c.topic_id AND h.partition = c.partition
WHERE c.group_id = %(group_id)s
  AND (c.topic_id, c.partition) > (%(after_topic)s::bigint, %(after_partition)s::bigint)
  AND (%(topic_id)s::integer IS NULL OR c.topic_id = %(topic_id)s::integer)
ORDER BY c.topic_id, c.partition
LIMIT %(limit)s;
