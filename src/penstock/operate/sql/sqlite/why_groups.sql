-- The groups on a partition and where they are; walks the groups, and the primary key of cursors for each.
SELECT g.id, g.name, g.created_ms, g.filters, g.paused_ms, g.seen_ms,
       c."offset", c.passed, c.owner, c.crashes, c.trying
FROM penstock_group g
CROSS JOIN penstock_cursor c ON c.group_id = g.id AND c.topic_id = :topic_id AND c.partition = :partition
WHERE :group_id IS NULL OR g.id = :group_id
ORDER BY g.name;
