-- Remove dead letters that are decided on, and return them; walks the primary key.
DELETE FROM penstock_dead WHERE group_id = :group_id AND topic_id = :topic_id AND (partition, "offset") IN (
    SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(:letters))
RETURNING partition, "offset", lane, holding;
