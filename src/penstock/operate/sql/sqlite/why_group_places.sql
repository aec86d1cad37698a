-- Where a group is in each partition that it reads, and where that ends; walks the primary keys.
SELECT c.topic_id, t.name, c.partition, c."offset", c.passed, c.owner, c.crashes, c.trying, h.next_offset
FROM penstock_cursor c
JOIN penstock_topic t ON t.id = c.topic_id
JOIN penstock_head h ON h.topic_id = c.topic_id AND h.partition = c.partition
WHERE c.group_id = :group_id AND (:topic_id IS NULL OR c.topic_id = :topic_id)
ORDER BY t.name, c.partition;
