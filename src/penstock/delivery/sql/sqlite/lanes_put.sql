-- Write down lanes that wait; walks the primary key.
INSERT INTO penstock_lane (group_id, topic_id, partition, lane, held, failures, due_ms, reason)
SELECT :group_id, :topic_id, json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'),
       json_extract(value, '$[3]'), json_extract(value, '$[4]'), json_extract(value, '$[5]')
FROM json_each(:lanes) WHERE true
ON CONFLICT (group_id, topic_id, partition, lane)
DO UPDATE SET held = excluded.held, failures = excluded.failures, due_ms = excluded.due_ms, reason = excluded.reason;
