-- The next event of a key for the future; walks ix_penstock_scheduled_key, locks nothing.
SELECT topic, id, key, type, timestamp_ms, slot, due_ms FROM penstock_scheduled
WHERE key_hash = %(key_hash)s AND key IS NOT NULL AND key = %(key)s AND (%(topic)s::text IS NULL OR topic = %(topic)s::text)
ORDER BY due_ms, seq LIMIT 1;
