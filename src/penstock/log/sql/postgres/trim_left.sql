-- Whether records of some ranges are still there, changed by others while they were deleted; walks the primary key, locks
-- nothing.
SELECT w.partition
FROM unnest(%(partitions)s::integer[], %(lows)s::bigint[], %(highs)s::bigint[]) AS w (partition, low, high)
CROSS JOIN LATERAL (
    SELECT 1 FROM penstock_log l
    WHERE l.topic_id = %(topic_id)s AND l.partition = w.partition AND l."offset" >= w.low AND l."offset" < w.high
    LIMIT 1) AS found
LIMIT 1;
