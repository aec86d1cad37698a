-- Where a group is in each partition of a topic, with what it has passed and not settled, also before the
-- start of what is kept; walks the primary keys.
SELECT c.partition, c."offset", c.passed,
       (SELECT count(*) FROM penstock_lane_entry e
        WHERE e.group_id = c.group_id AND e.topic_id = c.topic_id AND e.partition = c.partition) AS held,
       (SELECT count(*) FROM penstock_dead d
        WHERE d.group_id = c.group_id AND d.topic_id = c.topic_id AND d.partition = c.partition) AS dead,
       (SELECT count(*) FROM penstock_lane_entry e
        WHERE e.group_id = c.group_id AND e.topic_id = c.topic_id AND e.partition = c.partition
          AND e."offset" < h.start_offset)
       + (SELECT count(*) FROM penstock_dead d
          WHERE d.group_id = c.group_id AND d.topic_id = c.topic_id AND d.partition = c.partition
            AND d."offset" < h.start_offset) AS before
FROM penstock_cursor c
JOIN penstock_head h ON h.topic_id = c.topic_id AND h.partition = c.partition
WHERE c.group_id = :group_id AND c.topic_id = :topic_id;
