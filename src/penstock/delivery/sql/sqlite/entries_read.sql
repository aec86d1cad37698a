-- The records that retention has copied to some entries of lanes, in that order and no more than so many bytes of values
-- (but one record at least); walks the primary key once for each (cross join).
SELECT partition, "offset", id, key, type, value, headers, timestamp_ms
FROM (
    SELECT e.partition, e."offset", e.id, e.key, e.type, e.value, e.headers, e.timestamp_ms,
           sum(coalesce(length(e.value), 0)) OVER (ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bytes
    FROM json_each(:entries) w
    CROSS JOIN penstock_lane_entry e ON e.group_id = :group_id AND e.topic_id = :topic_id
     AND e.partition = json_extract(w.value, '$[0]') AND e."offset" = json_extract(w.value, '$[1]')
    WHERE e.id IS NOT NULL)
WHERE coalesce(bytes, 0) < :max_bytes;
