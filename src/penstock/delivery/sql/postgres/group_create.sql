-- Make a group unless it is there; locks the name.
INSERT INTO penstock_group (name, created_ms) VALUES (%(name)s, coalesce(%(now_ms)s::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)) ON CONFLICT (name) DO NOTHING;
