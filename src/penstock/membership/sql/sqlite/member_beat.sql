-- Renew a lease; locks the member's own row only.
UPDATE penstock_member SET lease_until_ms = coalesce(:now_ms, CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER)) + :lease_ms WHERE id = :id;
