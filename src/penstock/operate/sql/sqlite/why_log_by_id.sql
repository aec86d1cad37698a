-- A record by its id within a range of offsets of some partitions; walks the primary key once for each range.
SELECT l.partition, l."offset", l.id, l.key, l.type, l.timestamp_ms
FROM json_each(:ranges) w
CROSS JOIN penstock_log l ON l.topic_id = :topic_id AND l.partition = json_extract(w.value, '$[0]')
 AND l."offset" >= json_extract(w.value, '$[1]') AND l."offset" < json_extract(w.value, '$[2]')
WHERE l.id = :id LIMIT 1;
