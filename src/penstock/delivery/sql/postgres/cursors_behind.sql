-- How many partitions hold something the group has not settled, or have no cursor of it yet; walks heads and cursors.
SELECT count(*) FROM penstock_head h
LEFT JOIN penstock_cursor c ON c.group_id = %(group_id)s AND c.topic_id = h.topic_id AND c.partition = h.partition
WHERE h.topic_id = %(topic_id)s AND (c."offset" IS NULL OR h.next_offset > c."offset");
