-- How far groups are on each of their topics, and when the oldest record they have not passed was published; walks the
-- primary keys, the log's once for each cursor.
SELECT c.group_id, c.topic_id, t.name, count(*), sum(greatest(0, h.next_offset - c."offset")),
       min(CASE WHEN h.next_offset > c."offset" THEN (
           SELECT l.timestamp_ms FROM penstock_log l
           WHERE l.topic_id = c.topic_id AND l.partition = c.partition AND l."offset" >= c."offset"
           ORDER BY l."offset" LIMIT 1) END)
FROM penstock_cursor c
JOIN penstock_topic t ON t.id = c.topic_id
JOIN penstock_head h ON h.topic_id = c.topic_id AND h.partition = c.partition
WHERE c.group_id = ANY(%(groups)s::integer[])
GROUP BY c.group_id, c.topic_id, t.name
ORDER BY c.group_id, t.name;
