-- Whether records of some ranges are still there; walks the primary key (cross join).
SELECT l.partition
FROM json_each(:ranges) w
CROSS JOIN penstock_log l ON l.topic_id = :topic_id AND l.partition = json_extract(w.value, '$[0]')
 AND l."offset" >= json_extract(w.value, '$[1]') AND l."offset" < json_extract(w.value, '$[2]')
LIMIT 1;
