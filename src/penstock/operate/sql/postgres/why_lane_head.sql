-- The first record that waits in a lane; walks the primary key of the partition, locks nothing.
SELECT "offset" FROM penstock_lane_entry
WHERE group_id = %(group_id)s AND topic_id = %(topic_id)s AND partition = %(partition)s AND lane = %(lane)s
ORDER BY "offset" LIMIT 1;
