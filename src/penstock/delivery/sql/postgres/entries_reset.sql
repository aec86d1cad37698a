-- Remove the records of waiting lanes from an offset on, in each of some partitions; walks the primary key. The cursors'
-- locks are held already.
DELETE FROM penstock_lane_entry e
USING unnest(%(partitions)s::integer[], %(offsets)s::bigint[]) AS w (partition, place)
WHERE e.group_id = %(group_id)s AND e.topic_id = %(topic_id)s AND e.partition = w.partition AND e."offset" >= w.place;
