-- Remove records from the lanes they wait in, and return them; walks the primary key.
DELETE FROM penstock_lane_entry WHERE group_id = :group_id AND topic_id = :topic_id AND (partition, "offset") IN (
    SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(:entries))
RETURNING partition, "offset", lane;
