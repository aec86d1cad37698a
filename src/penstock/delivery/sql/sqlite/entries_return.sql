-- Let dead letters wait in lanes again, each with the copy of its record: the log may have lost it by now. Walks the
-- primary keys (cross join).
INSERT INTO penstock_lane_entry (group_id, topic_id, partition, "offset", lane,
                                 id, key, type, value, headers, timestamp_ms, owner)
SELECT d.group_id, d.topic_id, d.partition, d."offset", json_extract(w.value, '$[2]'),
       d.id, d.key, d.type, d.value, d.headers, d.timestamp_ms, d.owner
FROM json_each(:entries) w
CROSS JOIN penstock_dead d ON d.group_id = :group_id AND d.topic_id = :topic_id
 AND d.partition = json_extract(w.value, '$[0]') AND d."offset" = json_extract(w.value, '$[1]');
