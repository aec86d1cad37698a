-- Move cursors, each only as its owner in this epoch and only from the version it was left in: a late, stale or repeated
-- settling finds nothing. One that is calm again forgets its crashes. Walks the primary key, locks those rows in order.
UPDATE penstock_cursor c
SET "offset" = s.base, passed = s.passed, version = c.version + 1,
    crashes = CASE WHEN s.calm THEN 0 ELSE c.crashes END, trying = CASE WHEN s.calm THEN NULL ELSE c.trying END
FROM (
    SELECT w.* FROM unnest(%(partitions)s::integer[], %(bases)s::bigint[], %(passed)s::text[], %(calm)s::boolean[],
                           %(epochs)s::bigint[], %(versions)s::bigint[])
         AS w (partition, base, passed, calm, epoch, version)
    JOIN penstock_cursor l ON l.group_id = %(group_id)s AND l.topic_id = %(topic_id)s AND l.partition = w.partition
    ORDER BY w.partition FOR UPDATE OF l) AS s
WHERE c.group_id = %(group_id)s AND c.topic_id = %(topic_id)s AND c.partition = s.partition
  AND c.owner = %(owner)s AND c.epoch = s.epoch AND c.version = s.version
RETURNING c.partition;
