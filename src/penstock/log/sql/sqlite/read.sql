-- Records from an offset on, at most so many and so many bytes, but at least one; walks the primary key.
SELECT "offset", id, key, type, value, headers, timestamp_ms
FROM (
    SELECT *, sum(size) OVER (ORDER BY "offset") - size AS bytes_before
    FROM (
        SELECT *, coalesce(length(value), 0) + coalesce(length(key), 0) + coalesce(length(headers), 0) + 64 AS size
        FROM penstock_log
        WHERE topic_id = :topic_id AND partition = :partition AND "offset" >= :offset
          AND type <> 'penstock.erased'
        ORDER BY "offset"
        LIMIT :limit
    )
)
WHERE bytes_before = 0 OR bytes_before < :max_bytes
ORDER BY "offset";
