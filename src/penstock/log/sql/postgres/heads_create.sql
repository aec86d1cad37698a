-- Make the heads of a topic's partitions; walks the primary key, waits for one who is making the same.
INSERT INTO penstock_head (topic_id, partition)
SELECT %(topic_id)s, generate_series(0, %(partitions)s - 1)
ON CONFLICT DO NOTHING;
