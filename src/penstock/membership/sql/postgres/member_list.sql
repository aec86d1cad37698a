-- All members and whether their lease runs, by the database's clock; reads the table, which is small, locks nothing.
SELECT id, host, pid, started, lease_until_ms > coalesce(%(now_ms)s::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM penstock_member ORDER BY id;
