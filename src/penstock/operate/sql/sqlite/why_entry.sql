-- The lane in which a record waits; walks the primary key.
SELECT lane FROM penstock_lane_entry
WHERE group_id = :group_id AND topic_id = :topic_id AND partition = :partition AND "offset" = :offset;
