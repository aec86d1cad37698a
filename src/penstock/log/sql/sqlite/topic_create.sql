-- Make a topic unless the name is taken; locks the name.
INSERT INTO penstock_topic (name, partitions, partitioner, created_ms)
VALUES (:name, :partitions, :partitioner, coalesce(:now_ms, CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER)))
ON CONFLICT (name) DO NOTHING;
