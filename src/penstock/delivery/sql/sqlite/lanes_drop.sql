-- Remove lanes that flow again; walks the primary key.
DELETE FROM penstock_lane WHERE group_id = :group_id AND topic_id = :topic_id AND (partition, lane) IN (
    SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(:lanes));
