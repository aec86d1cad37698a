-- How many lanes and records wait in the partitions that a member has of a group; walks the
-- primary keys of these.
SELECT coalesce(sum(lanes), 0), coalesce(sum(entries), 0) FROM (
    SELECT (SELECT count(*) FROM penstock_lane p
            WHERE p.group_id = c.group_id AND p.topic_id = c.topic_id AND p.partition = c.partition) AS lanes,
           (SELECT count(*) FROM penstock_lane_entry p
            WHERE p.group_id = c.group_id AND p.topic_id = c.topic_id AND p.partition = c.partition) AS entries
    FROM penstock_cursor c
    WHERE c.group_id = :group_id AND c.topic_id = :topic_id AND c.owner = :owner);
