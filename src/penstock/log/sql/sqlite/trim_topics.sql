-- What is kept of each topic, and the time; reads the table.
SELECT id, name, retention_ms, retention_bytes, retention_records,
       coalesce(:now_ms, CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER))
FROM penstock_topic ORDER BY name;
