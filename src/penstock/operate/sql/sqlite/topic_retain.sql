-- Say what is kept of a topic; what is not said stays, or with keep false becomes the default. Walks the primary key,
-- locks the row.
UPDATE penstock_topic
SET retention_ms = CASE WHEN :keep THEN coalesce(:retention_ms, retention_ms) END,
    retention_bytes = CASE WHEN :keep THEN coalesce(:max_bytes, retention_bytes) END,
    retention_records = CASE WHEN :keep THEN coalesce(:max_records, retention_records) END
WHERE id = :topic_id;
