-- Mark the dead letters of some partitions as older than a reset; those from an offset on hold their lanes no more. Walks
-- the primary key.
WITH w AS MATERIALIZED (
    SELECT json_extract(value, '$[0]') AS number, json_extract(value, '$[1]') AS place FROM json_each(:floors))
UPDATE penstock_dead AS d
SET reset_ms = coalesce(:now_ms, CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER)),
    holding = CASE WHEN d."offset" >= w.place THEN false ELSE d.holding END
FROM w
WHERE d.group_id = :group_id AND d.topic_id = :topic_id AND d.partition = w.number;
