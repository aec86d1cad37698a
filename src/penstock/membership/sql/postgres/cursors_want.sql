-- Write who should own partitions of a group; walks the primary key and locks those rows in order, waiting for the
-- settlings under way. The locks come in a WITH: as a subquery it was run again for each row, 200 ms a group.
WITH w AS MATERIALIZED (
    SELECT l.partition, n.owner FROM unnest(%(numbers)s::integer[], %(owners)s::text[]) AS n (number, owner)
    JOIN penstock_cursor l ON l.group_id = %(group_id)s AND l.topic_id = %(topic_id)s AND l.partition = n.number
    ORDER BY l.partition FOR NO KEY UPDATE OF l)
UPDATE penstock_cursor c SET owner_wanted = w.owner FROM w
WHERE c.group_id = %(group_id)s AND c.topic_id = %(topic_id)s AND c.partition = w.partition;
