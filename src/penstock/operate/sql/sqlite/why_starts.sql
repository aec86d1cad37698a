-- Where to look for a record of some moment in each partition of a topic: its bounds, the last sparse mark before
-- it, and the time of the first record kept where some are gone; walks the primary keys.
SELECT h.partition, h.start_offset, h.next_offset,
       (SELECT t."offset" FROM penstock_log_time t
        WHERE t.topic_id = h.topic_id AND t.partition = h.partition AND t.max_ms < :time_ms
        ORDER BY t."offset" DESC LIMIT 1) AS mark,
       CASE WHEN h.start_offset > 0 THEN
           (SELECT l.timestamp_ms FROM penstock_log l
            WHERE l.topic_id = h.topic_id AND l.partition = h.partition ORDER BY l."offset" LIMIT 1) END AS first_ms
FROM penstock_head h WHERE h.topic_id = :topic_id AND h.next_offset > 0 ORDER BY h.partition;
