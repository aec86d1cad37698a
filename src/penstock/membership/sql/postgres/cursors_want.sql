-- Write who should own partitions of a group; walks the primary key and locks those rows in order, waiting for the
-- settlings under way.
UPDATE penstock_cursor c SET owner_wanted = w.owner
FROM (
    SELECT l.partition, n.owner FROM unnest(%(numbers)s::integer[], %(owners)s::text[]) AS n (number, owner)
    JOIN penstock_cursor l ON l.group_id = %(group_id)s AND l.topic_id = %(topic_id)s AND l.partition = n.number
    ORDER BY l.partition FOR NO KEY UPDATE OF l) w
WHERE c.group_id = %(group_id)s AND c.topic_id = %(topic_id)s AND c.partition = w.partition;
