-- The groups that were last seen too long ago to hold retention back, when that was, and how many records were deleted
-- that they had not passed; walks the cursors.
SELECT g.name, max(g.seen_ms, g.created_ms), sum(max(h.start_offset - c."offset", 0))
FROM penstock_group g
JOIN penstock_cursor c ON c.group_id = g.id
JOIN penstock_head h ON h.topic_id = c.topic_id AND h.partition = c.partition
WHERE max(g.seen_ms, g.created_ms) < coalesce(:now_ms, CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER)) - :expires_ms
GROUP BY g.id, g.name, g.seen_ms, g.created_ms ORDER BY g.name;
