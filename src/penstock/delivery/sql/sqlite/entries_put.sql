-- Write down records of waiting lanes that the cursor passes; one that is there already only changes its lane. Walks the
-- primary key.
INSERT INTO penstock_lane_entry (group_id, topic_id, partition, "offset", lane)
SELECT :group_id, :topic_id, json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]')
FROM json_each(:entries) WHERE true
ON CONFLICT (group_id, topic_id, partition, "offset") DO UPDATE SET lane = excluded.lane;
