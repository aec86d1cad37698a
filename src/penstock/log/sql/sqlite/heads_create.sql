-- Make the heads of a topic's partitions; walks the primary key.
WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < :partitions - 1)
INSERT INTO penstock_head (topic_id, partition) SELECT :topic_id, n FROM numbers WHERE true
ON CONFLICT DO NOTHING;
