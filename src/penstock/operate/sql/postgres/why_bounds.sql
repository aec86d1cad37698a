-- How many lanes and records wait in the partitions that a member has of a group; walks the
-- primary keys of these, locks nothing.
SELECT coalesce(sum(l.lanes), 0)::bigint, coalesce(sum(e.entries), 0)::bigint
FROM penstock_cursor c
CROSS JOIN LATERAL (
    SELECT count(*) AS lanes FROM penstock_lane p
    WHERE p.group_id = c.group_id AND p.topic_id = c.topic_id AND p.partition = c.partition) AS l
CROSS JOIN LATERAL (
    SELECT count(*) AS entries FROM penstock_lane_entry p
    WHERE p.group_id = c.group_id AND p.topic_id = c.topic_id AND p.partition = c.partition) AS e
WHERE c.group_id = %(group_id)s AND c.topic_id = %(topic_id)s AND c.owner = %(owner)s;
