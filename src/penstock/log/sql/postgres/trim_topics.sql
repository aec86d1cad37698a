-- What is kept of each topic, and the time; reads the table, locks nothing.
SELECT id, name, retention_ms, retention_bytes, retention_records,
       coalesce(%(now_ms)s::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)
FROM penstock_topic ORDER BY name;
