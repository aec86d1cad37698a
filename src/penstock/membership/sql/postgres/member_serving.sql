-- The members whose lease runs, for how long they have been there, and what they serve, by the database's clock; reads
-- the table, which is small, locks nothing.
SELECT id, host, pid, started, coalesce(%(now_ms)s::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) - joined_ms, serves FROM penstock_member
WHERE lease_until_ms > coalesce(%(now_ms)s::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) ORDER BY id;
