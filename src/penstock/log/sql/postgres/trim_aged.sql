-- Of some ranges of offsets the first record that is not older than a moment; from the last sparse mark before it, walks
-- the primary key, locks nothing. NULL: all are older.
SELECT w.partition,
       (SELECT l."offset" FROM penstock_log l
        WHERE l.topic_id = %(topic_id)s AND l.partition = w.partition AND l."offset" < w.high
          AND l."offset" >= greatest(w.low, coalesce((
                SELECT t."offset" FROM penstock_log_time t
                WHERE t.topic_id = %(topic_id)s AND t.partition = w.partition AND t."offset" <= w.high
                  AND t.max_ms < %(cutoff_ms)s
                ORDER BY t."offset" DESC LIMIT 1), 0))
          AND l.timestamp_ms >= %(cutoff_ms)s
        ORDER BY l."offset" LIMIT 1)
FROM unnest(%(partitions)s::integer[], %(lows)s::bigint[], %(highs)s::bigint[]) AS w (partition, low, high);
