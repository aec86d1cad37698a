-- Make a group unless it is there; walks the unique index on name.
INSERT INTO penstock_group (name, created_ms) VALUES (:name, coalesce(:now_ms, CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER))) ON CONFLICT (name) DO NOTHING;
