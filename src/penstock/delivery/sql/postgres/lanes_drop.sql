-- Remove lanes that flow again; walks the primary key. The cursors' locks are held already.
DELETE FROM penstock_lane l
USING unnest(%(partitions)s::integer[], %(lanes)s::text[]) AS w (partition, lane)
WHERE l.group_id = %(group_id)s AND l.topic_id = %(topic_id)s AND l.partition = w.partition AND l.lane = w.lane;
