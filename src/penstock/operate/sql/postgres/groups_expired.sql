-- The groups that were last seen too long ago to hold retention back, when that was, and how many records were deleted
-- that they had not passed; walks the cursors, locks nothing.
SELECT g.name, greatest(g.seen_ms, g.created_ms), sum(greatest(h.start_offset - c."offset", 0))::bigint
FROM penstock_group g
JOIN penstock_cursor c ON c.group_id = g.id
JOIN penstock_head h ON h.topic_id = c.topic_id AND h.partition = c.partition
WHERE greatest(g.seen_ms, g.created_ms) < coalesce(%(now_ms)s::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) - %(expires_ms)s
GROUP BY g.id, g.name, g.seen_ms, g.created_ms ORDER BY g.name;
