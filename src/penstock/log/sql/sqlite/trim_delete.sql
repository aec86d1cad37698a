-- Remove the oldest records of some partitions; walks the primary key once for each range (cross join).
DELETE FROM penstock_log WHERE rowid IN (
    SELECT l.rowid FROM json_each(:ranges) w
    CROSS JOIN penstock_log l ON l.topic_id = :topic_id AND l.partition = json_extract(w.value, '$[0]')
     AND l."offset" >= json_extract(w.value, '$[1]') AND l."offset" < json_extract(w.value, '$[2]'));
