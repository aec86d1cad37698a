-- Let the lanes of some partitions go on that no letter holds any more; walks the primary keys, each once.
UPDATE penstock_lane SET held = false, failures = 0, due_ms = 0, reason = :reason
WHERE group_id = :group_id AND topic_id = :topic_id AND held
  AND partition IN (SELECT value FROM json_each(:partitions))
  AND (partition, lane) NOT IN (
    SELECT d.partition, d.lane FROM penstock_dead d WHERE d.group_id = :group_id AND d.topic_id = :topic_id AND d.holding);
