-- A waiting record by its id, where retention has taken it from the log; reads the
-- waiting records of all groups.
SELECT topic_id, partition, "offset", id, key, type, timestamp_ms FROM penstock_lane_entry
WHERE id = :id AND (:topic_id IS NULL OR topic_id = :topic_id) LIMIT 1;
