-- Add this process with a fresh lease; locks nothing but its own row. A second try,
-- after a commit in doubt, renews it.
INSERT INTO penstock_member (id, host, pid, started, joined_ms, lease_until_ms, serves)
VALUES (:id, :host, :pid, :started, coalesce(:now_ms, CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER)), coalesce(:now_ms, CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER)) + :lease_ms, :serves)
ON CONFLICT (id) DO UPDATE SET lease_until_ms = excluded.lease_until_ms, serves = excluded.serves;
