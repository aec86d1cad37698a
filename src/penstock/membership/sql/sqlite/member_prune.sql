-- Remove members whose lease ended long ago; reads the table, which is small.
DELETE FROM penstock_member WHERE lease_until_ms < coalesce(:now_ms, CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER)) - :removal_ms;
