-- Let dead letters wait in lanes again, each with the copy of its record: the log may have lost it by now. Walks the
-- primary keys. The cursors' locks are held already.
INSERT INTO penstock_lane_entry (group_id, topic_id, partition, "offset", lane,
                                 id, key, type, value, headers, timestamp_ms, owner)
SELECT d.group_id, d.topic_id, d.partition, d."offset", w.lane,
       d.id, d.key, d.type, d.value, d.headers, d.timestamp_ms, d.owner
FROM unnest(%(partitions)s::integer[], %(offsets)s::bigint[], %(lanes)s::text[]) AS w (partition, place, lane)
JOIN penstock_dead d ON d.group_id = %(group_id)s AND d.topic_id = %(topic_id)s AND d.partition = w.partition
 AND d."offset" = w.place;
