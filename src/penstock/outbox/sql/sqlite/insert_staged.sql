-- Copy staged rows into the log at the offsets given to them; walks the primary keys.
INSERT INTO penstock_log (topic_id, partition, "offset", id, key, type, value, headers, timestamp_ms, owner)
SELECT json_extract(w.value, '$[1]'), json_extract(w.value, '$[2]'), json_extract(w.value, '$[3]'),
       s.id, s.key, s.type, s.value, s.headers, s.timestamp_ms, s.owner
FROM json_each(:places) w
JOIN penstock_staged s ON s.seq = json_extract(w.value, '$[0]');
