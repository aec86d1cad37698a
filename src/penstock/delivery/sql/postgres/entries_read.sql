-- The records that retention has copied to some entries of lanes, in that order and no more than so many bytes of values
-- (but one record at least); walks the primary key once for each (LATERAL, LIMIT), locks nothing.
SELECT partition, "offset", id, key, type, value, headers, timestamp_ms
FROM (
    SELECT w.place, e.partition, e."offset", e.id, e.key, e.type, e.value, e.headers, e.timestamp_ms,
           sum(coalesce(octet_length(e.value), 0)) OVER before AS bytes
    FROM unnest(%(partitions)s::integer[], %(offsets)s::bigint[]) WITH ORDINALITY AS w (partition, "offset", place)
    CROSS JOIN LATERAL (
        SELECT n.* FROM penstock_lane_entry n
        WHERE n.group_id = %(group_id)s AND n.topic_id = %(topic_id)s AND n.partition = w.partition
          AND n."offset" = w."offset" AND n.id IS NOT NULL
        LIMIT 1) AS e
    WINDOW before AS (ORDER BY w.place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)) AS found
WHERE coalesce(bytes, 0) < %(max_bytes)s
ORDER BY place;
