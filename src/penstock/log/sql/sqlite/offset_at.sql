-- The first offset with a timestamp at or after a moment; from the last sparse mark before it, walks the primary key.
SELECT "offset" FROM penstock_log
WHERE topic_id = :topic_id AND partition = :partition AND timestamp_ms >= :timestamp_ms
  AND "offset" >= coalesce((
        SELECT "offset" FROM penstock_log_time
        WHERE topic_id = :topic_id AND partition = :partition AND max_ms < :timestamp_ms
        ORDER BY "offset" DESC LIMIT 1), 0)
ORDER BY "offset" LIMIT 1;
