-- Add this process with a fresh lease; locks nothing but its own row.
INSERT INTO penstock_member (id, host, pid, started, joined_ms, lease_until_ms)
VALUES (:id, :host, :pid, :started, coalesce(:now_ms, CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER)), coalesce(:now_ms, CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER)) + :lease_ms);
