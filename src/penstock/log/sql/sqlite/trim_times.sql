-- Remove the time marks that speak only of deleted records; walks the primary key.
DELETE FROM penstock_log_time WHERE (topic_id, partition, "offset") IN (
    SELECT t.topic_id, t.partition, t."offset" FROM json_each(:ranges) w
    CROSS JOIN penstock_log_time t ON t.topic_id = :topic_id AND t.partition = json_extract(w.value, '$[0]')
     AND t."offset" <= json_extract(w.value, '$[2]'));
