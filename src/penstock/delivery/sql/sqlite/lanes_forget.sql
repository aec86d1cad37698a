-- Remove the lanes of some partitions that have neither a record nor a letter that holds them; walks the primary keys,
-- each once.
DELETE FROM penstock_lane WHERE group_id = :group_id AND topic_id = :topic_id
  AND partition IN (SELECT value FROM json_each(:partitions))
  AND (partition, lane) NOT IN (
    SELECT e.partition, e.lane FROM penstock_lane_entry e WHERE e.group_id = :group_id AND e.topic_id = :topic_id)
  AND (partition, lane) NOT IN (
    SELECT d.partition, d.lane FROM penstock_dead d WHERE d.group_id = :group_id AND d.topic_id = :topic_id AND d.holding);
