-- What SQLite is told in its own way: it has one writer and so no locks, and CROSS JOIN keeps it to an order of tables.

-- name: fetch
-- Records of several partitions, a range of offsets each, but for erased ones; CROSS JOIN keeps the order of the tables, so that each range
-- walks the primary key. ?1 topic, ?2 ranges as JSON, ?3 key, ?4 value, ?5 headers (wanted or not).
-- NULL is said apart: the driver takes a column's type from its first rows.
SELECT l.partition AS partition, l."offset" AS "offset", l.type AS type, l.timestamp_ms AS timestamp_ms,
       CASE WHEN ?3 THEN coalesce(l.key, x'') ELSE x'' END AS key,
       CASE WHEN ?3 THEN l.key IS NULL ELSE 1 END AS key_null,
       CASE WHEN ?4 THEN coalesce(l.value, x'') ELSE x'' END AS value,
       CASE WHEN ?4 THEN l.value IS NULL ELSE 1 END AS value_null,
       CASE WHEN ?5 THEN coalesce(l.headers, x'') ELSE x'' END AS headers,
       CASE WHEN ?5 THEN l.headers IS NULL ELSE 1 END AS headers_null
FROM json_each(?2) w
CROSS JOIN penstock_log l ON l.topic_id = ?1 AND l.partition = json_extract(w.value, '$[0]')
 AND l."offset" >= json_extract(w.value, '$[1]') AND l."offset" < json_extract(w.value, '$[2]')
 AND l.type <> 'penstock.erased';

-- name: starts
-- The first offset kept of each partition of a topic (?1); walks the primary key.
SELECT partition, start_offset FROM penstock_head WHERE topic_id = ?1;
