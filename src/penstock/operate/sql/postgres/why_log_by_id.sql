-- A record by its id within a range of offsets of some partitions; walks the primary key once for each range, locks nothing.
SELECT l.partition, l."offset", l.id, l.key, l.type, l.timestamp_ms
FROM unnest(%(partitions)s::integer[], %(starts)s::bigint[], %(ends)s::bigint[]) AS w (partition, low, high)
CROSS JOIN LATERAL (
    SELECT r.* FROM penstock_log r
    WHERE r.topic_id = %(topic_id)s AND r.partition = w.partition AND r."offset" >= w.low AND r."offset" < w.high
      AND r.id = %(id)s
    ORDER BY r."offset" LIMIT 1) AS l
LIMIT 1;
