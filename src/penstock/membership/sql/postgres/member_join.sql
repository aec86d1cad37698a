-- Add this process with a fresh lease, by the database's clock; locks nothing but its own row. A second try,
-- after a commit in doubt, renews it.
INSERT INTO penstock_member (id, host, pid, started, joined_ms, lease_until_ms, serves)
VALUES (%(id)s, %(host)s, %(pid)s, %(started)s, coalesce(%(now_ms)s::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint), coalesce(%(now_ms)s::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) + %(lease_ms)s, %(serves)s)
ON CONFLICT (id) DO UPDATE SET lease_until_ms = excluded.lease_until_ms, serves = excluded.serves;
