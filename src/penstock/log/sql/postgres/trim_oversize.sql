-- Of some ranges of offsets the place after the oldest records that together have the bytes too many; walks the primary
-- key, locks nothing.
SELECT w.partition,
       (SELECT max(s."offset") + 1 FROM (
            SELECT l."offset", sum(coalesce(octet_length(l.value), 0) + coalesce(octet_length(l.key), 0)
                  + coalesce(octet_length(l.headers), 0) + 64)
                       OVER (ORDER BY l."offset" ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
            FROM penstock_log l
            WHERE l.topic_id = %(topic_id)s AND l.partition = w.partition AND l."offset" >= w.low
              AND l."offset" < w.high) AS s
        WHERE coalesce(s.before, 0) < w.excess)
FROM unnest(%(partitions)s::integer[], %(lows)s::bigint[], %(highs)s::bigint[], %(excess)s::bigint[])
     AS w (partition, low, high, excess);
