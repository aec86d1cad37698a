-- Keep records that are given up, with a copy of all they hold; walks the log's primary key.
INSERT INTO penstock_dead (group_id, topic_id, partition, "offset", lane, holding, failures, reason, died_ms,
                           id, key, type, value, headers, timestamp_ms)
SELECT %(group_id)s, %(topic_id)s, l.partition, l."offset", w.lane, w.holding, w.failures, w.reason, coalesce(%(now_ms)s::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint),
       l.id, l.key, l.type, l.value, l.headers, l.timestamp_ms
FROM unnest(%(partitions)s::integer[], %(offsets)s::bigint[], %(lanes)s::text[], %(holding)s::boolean[], %(failures)s::integer[],
            %(reasons)s::text[]) AS w (partition, place, lane, holding, failures, reason)
JOIN penstock_log l ON l.topic_id = %(topic_id)s AND l.partition = w.partition AND l."offset" = w.place
ON CONFLICT (group_id, topic_id, partition, "offset")
DO UPDATE SET lane = excluded.lane, holding = excluded.holding, failures = excluded.failures, reason = excluded.reason, died_ms = excluded.died_ms;
