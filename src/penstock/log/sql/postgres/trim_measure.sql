-- How many bytes some ranges of offsets hold, as a read counts them; walks the primary key, locks nothing.
SELECT w.partition,
       (SELECT coalesce(sum(coalesce(octet_length(l.value), 0) + coalesce(octet_length(l.key), 0)
                  + coalesce(octet_length(l.headers), 0) + 64), 0)::bigint
        FROM penstock_log l
        WHERE l.topic_id = %(topic_id)s AND l.partition = w.partition AND l."offset" >= w.low AND l."offset" < w.high)
FROM unnest(%(partitions)s::integer[], %(lows)s::bigint[], %(highs)s::bigint[]) AS w (partition, low, high);
