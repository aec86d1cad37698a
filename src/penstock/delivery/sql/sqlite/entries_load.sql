-- The records of the waiting lanes of some partitions, and whether each has a copy; walks the primary key.
SELECT partition, lane, "offset", id IS NOT NULL FROM penstock_lane_entry
WHERE group_id = :group_id AND topic_id = :topic_id AND partition IN (SELECT value FROM json_each(:partitions))
ORDER BY "offset";
