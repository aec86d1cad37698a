-- All members and whether their lease runs; reads the table, which is small.
SELECT id, host, pid, started, lease_until_ms > coalesce(:now_ms, CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER)) FROM penstock_member ORDER BY id;
