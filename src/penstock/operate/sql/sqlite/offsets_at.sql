-- The first offset of each partition with a timestamp at or after a moment, its end when there is none; from the last
-- sparse mark before it, walks the primary keys. Not what lies before its start: a topic that is being cleared.
SELECT h.partition, coalesce((
    SELECT l."offset" FROM penstock_log l
    WHERE l.topic_id = h.topic_id AND l.partition = h.partition AND l.timestamp_ms >= :at_ms
      AND l."offset" >= h.start_offset
      AND l."offset" >= coalesce((
            SELECT m."offset" FROM penstock_log_time m
            WHERE m.topic_id = h.topic_id AND m.partition = h.partition AND m.max_ms < :at_ms
            ORDER BY m."offset" DESC LIMIT 1), 0)
    ORDER BY l."offset" LIMIT 1), h.next_offset)
FROM penstock_head h WHERE h.topic_id = :topic_id;
