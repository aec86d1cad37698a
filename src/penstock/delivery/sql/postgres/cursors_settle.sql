-- Move cursors, each only as its owner in this epoch and only from the version it was left in: a late, stale or repeated
-- settling finds nothing. One that is calm again forgets its crashes. Walks the primary key; locks those rows in order,
-- once (MATERIALIZED: a join may not run the locking again for each row).
WITH locked AS MATERIALIZED (
    SELECT partition FROM penstock_cursor
    WHERE group_id = %(group_id)s AND topic_id = %(topic_id)s AND partition = ANY(%(partitions)s::integer[])
    ORDER BY partition FOR UPDATE)
UPDATE penstock_cursor c
SET "offset" = s.base, passed = s.passed, version = c.version + 1,
    crashes = CASE WHEN s.calm THEN 0 ELSE c.crashes END, trying = CASE WHEN s.calm THEN NULL ELSE c.trying END
FROM unnest(%(partitions)s::integer[], %(bases)s::bigint[], %(passed)s::text[], %(calm)s::boolean[],
            %(epochs)s::bigint[], %(versions)s::bigint[]) AS s (partition, base, passed, calm, epoch, version)
JOIN locked l ON l.partition = s.partition
WHERE c.group_id = %(group_id)s AND c.topic_id = %(topic_id)s AND c.partition = s.partition
  AND c.owner = %(owner)s AND c.epoch = s.epoch AND c.version = s.version
RETURNING c.partition;
