-- The waiting lanes of some partitions; walks the primary key.
SELECT partition, lane, held, failures, due_ms, reason FROM penstock_lane
WHERE group_id = :group_id AND topic_id = :topic_id AND partition IN (SELECT value FROM json_each(:partitions));
