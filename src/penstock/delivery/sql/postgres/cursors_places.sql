-- Where cursors stand, and what they have passed above; walks the primary key, locks nothing.
SELECT partition, "offset", passed FROM penstock_cursor
WHERE group_id = %(group_id)s AND topic_id = %(topic_id)s AND partition = ANY(%(partitions)s::integer[])
ORDER BY partition;
