-- Renew a lease, by the database's clock; locks the member's own row only.
UPDATE penstock_member SET lease_until_ms = coalesce(%(now_ms)s::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) + %(lease_ms)s WHERE id = %(id)s;
