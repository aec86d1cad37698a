-- Take all content out of some records of an owner, keeping their offsets; walks the primary key.
UPDATE penstock_log
SET key = NULL, value = NULL, headers = NULL, owner = NULL, type = 'penstock.erased'
WHERE owner = :owner AND rowid IN (
    SELECT l.rowid FROM json_each(:places) w
    CROSS JOIN penstock_log l ON l.topic_id = :topic_id AND l.partition = json_extract(w.value, '$[0]')
     AND l."offset" = json_extract(w.value, '$[1]'));
