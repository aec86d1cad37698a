-- Which of some lanes a dead letter holds; walks the primary key over their partitions, locks nothing. The cursors' locks
-- are held already.
SELECT DISTINCT d.partition, d.lane
FROM unnest(%(partitions)s::integer[], %(lanes)s::text[]) AS w (partition, lane)
JOIN penstock_dead d ON d.group_id = %(group_id)s AND d.topic_id = %(topic_id)s AND d.partition = w.partition
 AND d.lane = w.lane
WHERE d.holding;
