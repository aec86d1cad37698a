-- An event for the future by its id; walks ix_penstock_scheduled_id, locks nothing.
SELECT topic, id, key, type, timestamp_ms, slot, due_ms FROM penstock_scheduled
WHERE id = %(id)s AND (%(topic)s::text IS NULL OR topic = %(topic)s::text) ORDER BY seq LIMIT 1;
