-- Let dead letters hold their lanes no more, and return those that did; walks the primary key.
UPDATE penstock_dead SET holding = false
WHERE group_id = :group_id AND topic_id = :topic_id AND holding AND (partition, "offset") IN (
    SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(:letters))
RETURNING partition, "offset", lane, true;
