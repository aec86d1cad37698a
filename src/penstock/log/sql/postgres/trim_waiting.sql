-- In which partitions of which groups records wait that some ranges of offsets hold and that are not copied yet; walks
-- the primary key once for each group and range (LATERAL, LIMIT), locks nothing.
SELECT g.id, w.partition
FROM unnest(%(partitions)s::integer[], %(lows)s::bigint[], %(highs)s::bigint[]) AS w (partition, low, high)
CROSS JOIN penstock_group g
CROSS JOIN LATERAL (
    SELECT 1 FROM penstock_lane_entry e
    WHERE e.group_id = g.id AND e.topic_id = %(topic_id)s AND e.partition = w.partition
      AND e."offset" >= w.low AND e."offset" < w.high AND e.id IS NULL
    LIMIT 1) AS found
ORDER BY g.id, w.partition;
