-- Remove the time marks that speak only of deleted records; walks the primary key.
DELETE FROM penstock_log_time t
USING unnest(%(partitions)s::integer[], %(lows)s::bigint[], %(highs)s::bigint[]) AS w (partition, low, high)
WHERE t.topic_id = %(topic_id)s AND t.partition = w.partition AND t."offset" <= w.high;
