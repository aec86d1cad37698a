-- Make a topic unless the name is taken; locks the name, waits for one who is making the same.
INSERT INTO penstock_topic (name, partitions, partitioner, created_ms)
VALUES (%(name)s, %(partitions)s, %(partitioner)s, coalesce(%(now_ms)s::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint))
ON CONFLICT (name) DO NOTHING;
