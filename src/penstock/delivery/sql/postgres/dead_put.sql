-- Keep records that are given up, with a copy of all they hold: from the lane's entry where one was put, or from the log.
-- Walks the primary keys once for each (LATERAL, LIMIT). The cursors' locks are held already.
INSERT INTO penstock_dead (group_id, topic_id, partition, "offset", lane, holding, failures, reason, died_ms,
                           id, key, type, value, headers, timestamp_ms, owner)
SELECT %(group_id)s, %(topic_id)s, w.partition, w.place, w.lane, w.holding, w.failures, w.reason, coalesce(%(now_ms)s::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint),
       r.id, r.key, r.type, r.value, r.headers, r.timestamp_ms, r.owner
FROM unnest(%(partitions)s::integer[], %(offsets)s::bigint[], %(lanes)s::text[], %(holding)s::boolean[], %(failures)s::integer[],
            %(reasons)s::text[]) AS w (partition, place, lane, holding, failures, reason)
CROSS JOIN LATERAL (
    SELECT e.id, e.key, e.type, e.value, e.headers, e.timestamp_ms, e.owner FROM penstock_lane_entry e
    WHERE e.group_id = %(group_id)s AND e.topic_id = %(topic_id)s AND e.partition = w.partition AND e."offset" = w.place
      AND e.id IS NOT NULL
    UNION ALL
    SELECT l.id, l.key, l.type, l.value, l.headers, l.timestamp_ms, l.owner FROM penstock_log l
    WHERE l.topic_id = %(topic_id)s AND l.partition = w.partition AND l."offset" = w.place
    LIMIT 1) AS r
ON CONFLICT (group_id, topic_id, partition, "offset")
DO UPDATE SET lane = excluded.lane, holding = excluded.holding, failures = excluded.failures, reason = excluded.reason, died_ms = excluded.died_ms,
              reset_ms = NULL;
