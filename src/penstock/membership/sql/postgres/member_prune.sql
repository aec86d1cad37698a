-- Remove members whose lease ended long ago; reads the table, which is small.
DELETE FROM penstock_member WHERE lease_until_ms < coalesce(%(now_ms)s::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) - %(removal_ms)s;
