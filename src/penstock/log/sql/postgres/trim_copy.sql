-- Copy records that wait in lanes out of the ranges that are deleted next; walks the primary keys, for each group and
-- range (LATERAL). The cursors' locks are held already.
UPDATE penstock_lane_entry e
SET id = f.id, key = f.key, type = f.type, value = f.value, headers = f.headers, timestamp_ms = f.timestamp_ms,
    owner = f.owner
FROM (
    SELECT g.id AS group_id, l.*
    FROM unnest(%(partitions)s::integer[], %(lows)s::bigint[], %(highs)s::bigint[]) AS w (partition, low, high)
    CROSS JOIN penstock_group g
    CROSS JOIN LATERAL (
        SELECT n.partition, n."offset" FROM penstock_lane_entry n
        WHERE n.group_id = g.id AND n.topic_id = %(topic_id)s AND n.partition = w.partition
          AND n."offset" >= w.low AND n."offset" < w.high AND n.id IS NULL
        ORDER BY n."offset" LIMIT w.high - w.low) AS waits
    CROSS JOIN LATERAL (
        SELECT r.* FROM penstock_log r
        WHERE r.topic_id = %(topic_id)s AND r.partition = waits.partition AND r."offset" = waits."offset"
        LIMIT 1) AS l) AS f
WHERE e.group_id = f.group_id AND e.topic_id = %(topic_id)s AND e.partition = f.partition AND e."offset" = f."offset";
