-- The oldest record of each of some lanes; walks the primary key over their partitions, locks nothing.
SELECT e.partition, e.lane, min(e."offset")
FROM unnest(%(partitions)s::integer[], %(lanes)s::text[]) AS w (partition, lane)
JOIN penstock_lane_entry e ON e.group_id = %(group_id)s AND e.topic_id = %(topic_id)s AND e.partition = w.partition
 AND e.lane = w.lane
GROUP BY e.partition, e.lane;
