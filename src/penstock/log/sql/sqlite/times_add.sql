-- Mark, sparsely, how late the records below an offset are; walks the primary key.
INSERT INTO penstock_log_time (topic_id, partition, "offset", max_ms)
SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'), json_extract(value, '$[3]')
FROM json_each(:marks) WHERE true
ON CONFLICT DO NOTHING;
