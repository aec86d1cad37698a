-- The records of the waiting lanes of some partitions; walks the primary key, locks nothing.
SELECT partition, lane, "offset" FROM penstock_lane_entry
WHERE group_id = %(group_id)s AND topic_id = %(topic_id)s AND partition = ANY(%(partitions)s::integer[])
ORDER BY "offset";
