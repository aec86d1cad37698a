-- Where cursors stand, and what they have passed above; walks the primary key.
SELECT partition, "offset", passed FROM penstock_cursor
WHERE group_id = :group_id AND topic_id = :topic_id AND partition IN (SELECT value FROM json_each(:partitions))
ORDER BY partition;
