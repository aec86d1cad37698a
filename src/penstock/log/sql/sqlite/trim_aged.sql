-- Of some ranges of offsets the first record that is not older than a moment; from the last sparse mark before it, walks
-- the primary key. NULL: all are older.
SELECT json_extract(w.value, '$[0]'),
       (SELECT l."offset" FROM penstock_log l
        WHERE l.topic_id = :topic_id AND l.partition = json_extract(w.value, '$[0]')
          AND l."offset" < json_extract(w.value, '$[2]')
          AND l."offset" >= max(json_extract(w.value, '$[1]'), coalesce((
                SELECT t."offset" FROM penstock_log_time t
                WHERE t.topic_id = :topic_id AND t.partition = json_extract(w.value, '$[0]')
                  AND t."offset" <= json_extract(w.value, '$[2]') AND t.max_ms < :cutoff_ms
                ORDER BY t."offset" DESC LIMIT 1), 0))
          AND l.timestamp_ms >= :cutoff_ms
        ORDER BY l."offset" LIMIT 1)
FROM json_each(:ranges) w;
