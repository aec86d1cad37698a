-- The members whose lease runs, for how long they have been there, and what they serve; reads the table, which is small.
SELECT id, host, pid, started, coalesce(:now_ms, CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER)) - joined_ms, serves FROM penstock_member
WHERE lease_until_ms > coalesce(:now_ms, CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER)) ORDER BY id;
