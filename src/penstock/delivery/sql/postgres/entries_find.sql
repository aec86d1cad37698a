-- Which of some records wait in a lane; walks the primary key, locks nothing. The cursors' locks are held already.
SELECT e.partition, e."offset"
FROM unnest(%(partitions)s::integer[], %(offsets)s::bigint[]) AS w (partition, place)
JOIN penstock_lane_entry e ON e.group_id = %(group_id)s AND e.topic_id = %(topic_id)s AND e.partition = w.partition
 AND e."offset" = w.place;
