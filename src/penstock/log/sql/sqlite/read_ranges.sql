-- Records of several partitions, a range of offsets each, in that order, and of these no more than so many bytes of values
-- (but one record at least); walks the primary key once for each range: the cross join keeps SQLite from walking the log
-- and asking the ranges.
SELECT partition, "offset", id, key, type, value, headers, timestamp_ms
FROM (
    SELECT l.partition, l."offset", l.id, l.key, l.type, l.value, l.headers, l.timestamp_ms,
           sum(coalesce(length(l.value), 0)) OVER (ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bytes
    FROM json_each(:ranges) w
    CROSS JOIN penstock_log l ON l.topic_id = :topic_id AND l.partition = json_extract(w.value, '$[0]')
     AND l."offset" >= json_extract(w.value, '$[1]') AND l."offset" < json_extract(w.value, '$[2]'))
WHERE coalesce(bytes, 0) < :max_bytes;
