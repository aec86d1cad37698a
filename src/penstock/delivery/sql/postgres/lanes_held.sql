-- Which of some lanes are held; walks the primary key, locks nothing. The cursors' locks are held already.
SELECT l.partition, l.lane
FROM unnest(%(partitions)s::integer[], %(lanes)s::text[]) AS w (partition, lane)
JOIN penstock_lane l ON l.group_id = %(group_id)s AND l.topic_id = %(topic_id)s AND l.partition = w.partition
 AND l.lane = w.lane
WHERE l.held;
