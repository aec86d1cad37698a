-- The groups that have yet to come to an offset of a partition, and where they are; walks the primary key.
SELECT g.name, c."offset" FROM penstock_group g
CROSS JOIN penstock_cursor c ON c.group_id = g.id AND c.topic_id = :topic_id AND c.partition = :partition
WHERE c."offset" < :before
ORDER BY g.name;
