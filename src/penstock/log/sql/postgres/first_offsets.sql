-- Where some partitions go on: the first offset at or after a place; walks the primary key once for each (LATERAL, LIMIT),
-- locks nothing.
SELECT w.partition, l."offset"
FROM unnest(%(partitions)s::integer[], %(lows)s::bigint[]) AS w (partition, low)
CROSS JOIN LATERAL (
    SELECT r."offset" FROM penstock_log r
    WHERE r.topic_id = %(topic_id)s AND r.partition = w.partition AND r."offset" >= w.low
    ORDER BY r."offset" LIMIT 1) AS l;
