-- Remove the oldest records of some partitions; walks the primary key once for each range (LATERAL, LIMIT), locks those
-- rows and no others.
DELETE FROM penstock_log WHERE ctid = ANY(ARRAY(
    SELECT l.ctid
    FROM unnest(%(partitions)s::integer[], %(lows)s::bigint[], %(highs)s::bigint[]) AS w (partition, low, high)
    CROSS JOIN LATERAL (
        SELECT r.ctid FROM penstock_log r
        WHERE r.topic_id = %(topic_id)s AND r.partition = w.partition AND r."offset" >= w.low AND r."offset" < w.high
        ORDER BY r."offset" LIMIT w.high - w.low) AS l));
