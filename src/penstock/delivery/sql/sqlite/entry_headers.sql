-- Give the copy of a waiting record other headers; walks the primary key.
UPDATE penstock_lane_entry SET headers = :headers
WHERE group_id = :group_id AND topic_id = :topic_id AND partition = :partition AND "offset" = :offset;
