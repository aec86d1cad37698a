-- Records from an offset on, at most so many and so many bytes, but at least one; walks the primary key, locks nothing.
SELECT "offset", id, key, type, value, headers, timestamp_ms
FROM (
    SELECT *, sum(size) OVER (ORDER BY "offset") - size AS bytes_before
    FROM (
        SELECT *, coalesce(octet_length(value), 0) + coalesce(octet_length(key), 0)
                  + coalesce(octet_length(headers), 0) + 64 AS size
        FROM penstock_log
        WHERE topic_id = %(topic_id)s AND partition = %(partition)s AND "offset" >= %(offset)s
          AND type <> 'penstock.erased'
        ORDER BY "offset"
        LIMIT %(limit)s
    ) AS sized
) AS measured
WHERE bytes_before = 0 OR bytes_before < %(max_bytes)s
ORDER BY "offset";
