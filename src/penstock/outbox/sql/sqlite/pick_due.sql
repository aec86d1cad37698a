-- The due rows of these slots, in the order they became due; walks ix_penstock_scheduled_due.
SELECT seq, slot, topic, key_hash, timestamp_ms FROM penstock_scheduled
WHERE due_ms <= coalesce(:now_ms, CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER)) AND slot IN (SELECT value FROM json_each(:slots))
ORDER BY due_ms, seq LIMIT :limit;
