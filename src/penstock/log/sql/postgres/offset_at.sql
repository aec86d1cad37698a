-- The first offset with a timestamp at or after a moment; from the last sparse mark before it, walks the primary key, locks nothing.
SELECT "offset" FROM penstock_log
WHERE topic_id = %(topic_id)s AND partition = %(partition)s AND timestamp_ms >= %(timestamp_ms)s
  AND "offset" >= coalesce((
        SELECT "offset" FROM penstock_log_time
        WHERE topic_id = %(topic_id)s AND partition = %(partition)s AND max_ms < %(timestamp_ms)s
        ORDER BY "offset" DESC LIMIT 1), 0)
ORDER BY "offset" LIMIT 1;
