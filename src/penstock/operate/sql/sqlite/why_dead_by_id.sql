-- A record that some group gave up, by its id; reads the dead letters.
SELECT topic_id, partition, "offset", id, key, type, timestamp_ms FROM penstock_dead
WHERE id = :id AND (:topic_id IS NULL OR topic_id = :topic_id) LIMIT 1;
