-- Records of several partitions, a range of offsets each; walks the primary key, locks nothing.
SELECT l.partition, l."offset", l.id, l.key, l.type, l.value, l.headers, l.timestamp_ms
FROM unnest(%(partitions)s::integer[], %(starts)s::bigint[], %(ends)s::bigint[]) AS w (partition, low, high)
JOIN penstock_log l ON l.topic_id = %(topic_id)s AND l.partition = w.partition
 AND l."offset" >= w.low AND l."offset" < w.high
ORDER BY l.partition, l."offset";
