-- Whether a group that was seen lately stands before the end of some ranges, and so still needs records of them; walks the
-- groups and, for each range, the primary key (cross join).
SELECT c.partition
FROM json_each(:ranges) w
CROSS JOIN penstock_group g
CROSS JOIN penstock_cursor c ON c.group_id = g.id AND c.topic_id = :topic_id
 AND c.partition = json_extract(w.value, '$[0]')
WHERE max(g.seen_ms, g.created_ms) >= :seen_since AND c."offset" < json_extract(w.value, '$[2]')
LIMIT 1;
