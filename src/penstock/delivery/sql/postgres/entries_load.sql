-- The records of the waiting lanes of some partitions, and whether each has a copy; walks the primary key, locks nothing.
SELECT partition, lane, "offset", id IS NOT NULL FROM penstock_lane_entry
WHERE group_id = %(group_id)s AND topic_id = %(topic_id)s AND partition = ANY(%(partitions)s::integer[])
ORDER BY "offset";
