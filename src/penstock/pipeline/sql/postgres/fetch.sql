-- Records of several partitions, a range of offsets each (see ask.sql), but for erased ones; walks the primary key, locks nothing.
SELECT l.partition, l."offset", l.type, l.timestamp_ms,
       CASE WHEN current_setting('penstock.key')::boolean THEN l.key END AS key,
       CASE WHEN current_setting('penstock.value')::boolean THEN l.value END AS value,
       CASE WHEN current_setting('penstock.headers')::boolean THEN l.headers END AS headers
FROM unnest(string_to_array(current_setting('penstock.partitions'), ',')::integer[],
            string_to_array(current_setting('penstock.starts'), ',')::bigint[],
            string_to_array(current_setting('penstock.ends'), ',')::bigint[]) AS w (partition, low, high)
CROSS JOIN LATERAL (
    SELECT g.* FROM penstock_log g
    WHERE g.topic_id = current_setting('penstock.topic_id')::integer AND g.partition = w.partition
      AND g."offset" >= w.low AND g."offset" < w.high AND g.type <> 'penstock.erased'
    ORDER BY g."offset"
) AS l;
