-- Keep the owners of some cursors from settling until the end; locks those rows in order, walks the primary key.
SELECT c.group_id, c.partition
FROM unnest(%(groups)s::integer[], %(partitions)s::integer[]) AS w (group_id, partition)
JOIN penstock_cursor c ON c.group_id = w.group_id AND c.topic_id = %(topic_id)s AND c.partition = w.partition
ORDER BY c.group_id, c.partition
FOR UPDATE OF c;
