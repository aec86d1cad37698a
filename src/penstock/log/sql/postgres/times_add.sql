-- Mark, sparsely, how late the records below an offset are; the heads' locks are held already.
INSERT INTO penstock_log_time (topic_id, partition, "offset", max_ms)
SELECT * FROM unnest(%(topic_ids)s::integer[], %(partitions)s::integer[], %(offsets)s::bigint[], %(max_ms)s::bigint[])
ON CONFLICT DO NOTHING;
