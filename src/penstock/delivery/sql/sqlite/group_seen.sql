-- Note that groups have a member, if they were last seen before an hour; walks the unique index on name.
UPDATE penstock_group SET seen_ms = n.now_ms
FROM (SELECT coalesce(:now_ms, CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER)) AS now_ms) AS n
WHERE name IN (SELECT value FROM json_each(:names)) AND seen_ms < n.now_ms - 3600000;
