-- Keep records that are given up, with a copy of all they hold: from the lane's entry where one was put, or from the log.
-- Walks the primary keys for each (cross join first, so that the list leads).
INSERT INTO penstock_dead (group_id, topic_id, partition, "offset", lane, holding, failures, reason, died_ms,
                           id, key, type, value, headers, timestamp_ms, owner)
SELECT :group_id, :topic_id, json_extract(w.value, '$[0]'), json_extract(w.value, '$[1]'), json_extract(w.value, '$[2]'),
       json_extract(w.value, '$[3]'), json_extract(w.value, '$[4]'), json_extract(w.value, '$[5]'), coalesce(:now_ms, CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER)),
       coalesce(e.id, l.id), iif(e.id IS NULL, l.key, e.key), coalesce(e.type, l.type), iif(e.id IS NULL, l.value, e.value),
       iif(e.id IS NULL, l.headers, e.headers), coalesce(e.timestamp_ms, l.timestamp_ms), iif(e.id IS NULL, l.owner, e.owner)
FROM json_each(:dead) w
LEFT JOIN penstock_log l ON l.topic_id = :topic_id AND l.partition = json_extract(w.value, '$[0]')
 AND l."offset" = json_extract(w.value, '$[1]')
LEFT JOIN penstock_lane_entry e ON e.group_id = :group_id AND e.topic_id = :topic_id
 AND e.partition = json_extract(w.value, '$[0]') AND e."offset" = json_extract(w.value, '$[1]')
WHERE coalesce(l.id, e.id) IS NOT NULL
ON CONFLICT (group_id, topic_id, partition, "offset")
DO UPDATE SET lane = excluded.lane, holding = excluded.holding, failures = excluded.failures, reason = excluded.reason, died_ms = excluded.died_ms,
              reset_ms = NULL;
