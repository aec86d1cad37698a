-- Whether a group that was seen lately stands before the end of some ranges, and so still needs records of them; walks the
-- groups and, for each range, the primary key, locks nothing. The heads' locks are held already.
SELECT w.partition
FROM unnest(%(partitions)s::integer[], %(lows)s::bigint[], %(highs)s::bigint[]) AS w (partition, low, high)
CROSS JOIN LATERAL (
    SELECT 1 FROM penstock_group g
    JOIN penstock_cursor c ON c.group_id = g.id AND c.topic_id = %(topic_id)s AND c.partition = w.partition
    WHERE greatest(g.seen_ms, g.created_ms) >= %(seen_since)s AND c."offset" < w.high
    LIMIT 1) AS found
LIMIT 1;
