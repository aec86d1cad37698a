-- Hold cursors, so that nobody settles or takes them meanwhile; walks the primary key, locks the rows in order, waiting for
-- the settlings under way.
SELECT partition, "offset", passed, trying FROM penstock_cursor
WHERE group_id = %(group_id)s AND topic_id = %(topic_id)s AND partition = ANY(%(partitions)s::integer[])
ORDER BY partition FOR UPDATE;
