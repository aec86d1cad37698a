-- The next event of a key for the future; walks ix_penstock_scheduled_key.
SELECT topic, id, key, type, timestamp_ms, slot, due_ms FROM penstock_scheduled
WHERE key_hash = :key_hash AND key IS NOT NULL AND key = :key AND (:topic IS NULL OR topic = :topic)
ORDER BY due_ms, seq LIMIT 1;
