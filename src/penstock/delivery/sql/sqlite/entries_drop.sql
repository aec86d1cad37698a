-- Remove records of waiting lanes that are settled; walks the primary key.
DELETE FROM penstock_lane_entry WHERE group_id = :group_id AND topic_id = :topic_id AND (partition, "offset") IN (
    SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(:entries));
