-- The first record that waits in a lane; walks the primary key of the partition.
SELECT "offset" FROM penstock_lane_entry
WHERE group_id = :group_id AND topic_id = :topic_id AND partition = :partition AND lane = :lane
ORDER BY "offset" LIMIT 1;
