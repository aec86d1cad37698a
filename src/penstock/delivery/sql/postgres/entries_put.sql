-- Write down records of waiting lanes that the cursor passes; one that is there already only changes its lane. Walks the
-- primary key. The cursors' locks are held already.
INSERT INTO penstock_lane_entry (group_id, topic_id, partition, "offset", lane)
SELECT %(group_id)s, %(topic_id)s, e.*
FROM unnest(%(partitions)s::integer[], %(offsets)s::bigint[], %(lanes)s::text[]) AS e
ON CONFLICT (group_id, topic_id, partition, "offset") DO UPDATE SET lane = excluded.lane;
