-- Write down records of waiting lanes that the cursor passes; walks the primary key. The cursors' locks are held already.
INSERT INTO penstock_lane_entry (group_id, topic_id, partition, "offset", lane)
SELECT %(group_id)s, %(topic_id)s, e.*
FROM unnest(%(partitions)s::integer[], %(offsets)s::bigint[], %(lanes)s::text[]) AS e;
