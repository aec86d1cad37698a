-- A page of a topic's partitions, after one of them; walks the primary key.
SELECT partition, start_offset, next_offset FROM penstock_head
WHERE topic_id = :topic_id AND partition > :after
ORDER BY partition
LIMIT :limit;
