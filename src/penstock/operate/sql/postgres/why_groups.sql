-- The groups on a partition and where they are; walks the groups, and the primary key of cursors for each, locks nothing.
SELECT g.id, g.name, g.created_ms, g.filters, g.paused_ms, g.seen_ms,
       c."offset", c.passed, c.owner, c.crashes, c.trying
FROM penstock_group g
CROSS JOIN LATERAL (
    SELECT * FROM penstock_cursor r
    WHERE r.group_id = g.id AND r.topic_id = %(topic_id)s AND r.partition = %(partition)s LIMIT 1) AS c
WHERE %(group_id)s::integer IS NULL OR g.id = %(group_id)s::integer
ORDER BY g.name;
