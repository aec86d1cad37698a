-- A scheduled event with all it holds; walks ix_penstock_scheduled_id.
SELECT due_ms, seq, topic, key, owner, type, id, slot, value, headers, timestamp_ms FROM penstock_scheduled
WHERE id = :id
ORDER BY seq LIMIT 1;
