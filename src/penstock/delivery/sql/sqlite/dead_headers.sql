-- The headers of dead letters, by their places; walks the primary key (cross join).
SELECT d.partition, d."offset", d.headers
FROM json_each(:letters) w
CROSS JOIN penstock_dead d ON d.group_id = :group_id AND d.topic_id = :topic_id
 AND d.partition = json_extract(w.value, '$[0]') AND d."offset" = json_extract(w.value, '$[1]');
