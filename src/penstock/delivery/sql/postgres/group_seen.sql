-- Note that groups have a member; locks the rows of those last seen before an hour, walks the unique index on name.
UPDATE penstock_group SET seen_ms = n.now_ms
FROM (SELECT coalesce(%(now_ms)s::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms) AS n
WHERE name = ANY(%(names)s::text[]) AND seen_ms < n.now_ms - 3600000;
