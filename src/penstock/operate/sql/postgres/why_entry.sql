-- The lane in which a record waits; walks the primary key, locks nothing.
SELECT lane FROM penstock_lane_entry
WHERE group_id = %(group_id)s AND topic_id = %(topic_id)s AND partition = %(partition)s AND "offset" = %(offset)s;
