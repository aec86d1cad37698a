-- Keep records that are given up, with a copy of all they hold; walks the log's primary key for each (cross join).
INSERT INTO penstock_dead (group_id, topic_id, partition, "offset", lane, holding, failures, reason, died_ms,
                           id, key, type, value, headers, timestamp_ms)
SELECT :group_id, :topic_id, l.partition, l."offset", json_extract(w.value, '$[2]'), json_extract(w.value, '$[3]'),
       json_extract(w.value, '$[4]'), json_extract(w.value, '$[5]'), coalesce(:now_ms, CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER)), l.id, l.key, l.type, l.value, l.headers, l.timestamp_ms
FROM json_each(:dead) w
CROSS JOIN penstock_log l ON l.topic_id = :topic_id AND l.partition = json_extract(w.value, '$[0]')
 AND l."offset" = json_extract(w.value, '$[1]')
WHERE true
ON CONFLICT (group_id, topic_id, partition, "offset")
DO UPDATE SET lane = excluded.lane, holding = excluded.holding, failures = excluded.failures, reason = excluded.reason, died_ms = excluded.died_ms;
