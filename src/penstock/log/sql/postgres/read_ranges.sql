-- Records of several partitions, a range of offsets each, in that order, and of these no more than so many bytes of values
-- (but one record at least); walks the primary key once for each range (LATERAL, LIMIT: a free join walked the whole
-- topic), locks nothing.
SELECT partition, "offset", id, key, type, value, headers, timestamp_ms
FROM (
    SELECT w.place, l.partition, l."offset", l.id, l.key, l.type, l.value, l.headers, l.timestamp_ms,
           sum(coalesce(octet_length(l.value), 0)) OVER before AS bytes
    FROM unnest(%(partitions)s::integer[], %(starts)s::bigint[], %(ends)s::bigint[])
         WITH ORDINALITY AS w (partition, low, high, place)
    CROSS JOIN LATERAL (
        SELECT r.* FROM penstock_log r
        WHERE r.topic_id = %(topic_id)s AND r.partition = w.partition AND r."offset" >= w.low AND r."offset" < w.high
        ORDER BY r."offset" LIMIT w.high - w.low) AS l
    WINDOW before AS (ORDER BY w.place, l."offset" ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)) AS found
WHERE coalesce(bytes, 0) < %(max_bytes)s
ORDER BY place, "offset";
