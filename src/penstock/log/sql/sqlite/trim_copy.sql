-- Copy records that wait in lanes out of the ranges that are deleted next; walks the primary keys, for each group and
-- range (cross joins).
UPDATE penstock_lane_entry AS e
SET id = f.id, key = f.key, type = f.type, value = f.value, headers = f.headers, timestamp_ms = f.timestamp_ms,
    owner = f.owner
FROM (
    SELECT n.group_id, l.partition, l."offset", l.id, l.key, l.type, l.value, l.headers, l.timestamp_ms, l.owner
    FROM json_each(:ranges) w
    CROSS JOIN penstock_group g
    CROSS JOIN penstock_lane_entry n ON n.group_id = g.id AND n.topic_id = :topic_id
     AND n.partition = json_extract(w.value, '$[0]')
     AND n."offset" >= json_extract(w.value, '$[1]') AND n."offset" < json_extract(w.value, '$[2]')
    CROSS JOIN penstock_log l ON l.topic_id = :topic_id AND l.partition = n.partition AND l."offset" = n."offset"
    WHERE n.id IS NULL) AS f
WHERE e.group_id = f.group_id AND e.topic_id = :topic_id AND e.partition = f.partition AND e."offset" = f."offset";
