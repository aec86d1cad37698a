-- An event for the future by its id; walks ix_penstock_scheduled_id.
SELECT topic, id, key, type, timestamp_ms, slot, due_ms FROM penstock_scheduled
WHERE id = :id AND (:topic IS NULL OR topic = :topic) ORDER BY seq LIMIT 1;
