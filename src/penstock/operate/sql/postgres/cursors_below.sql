-- The groups that have yet to come to an offset of a partition, and where they are; walks the primary key, locks nothing.
SELECT g.name, c."offset" FROM penstock_group g
JOIN penstock_cursor c ON c.group_id = g.id AND c.topic_id = %(topic_id)s AND c.partition = %(partition)s
WHERE c."offset" < %(before)s
ORDER BY g.name;
