-- Give a group nothing, unless it is so already; walks the primary key, locks the row.
UPDATE penstock_group SET paused_ms = coalesce(:now_ms, CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER))
WHERE id = :group_id AND paused_ms IS NULL;
