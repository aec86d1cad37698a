-- Give the copy of a waiting record other headers; walks the primary key, locks its row. The cursors' locks are held already.
UPDATE penstock_lane_entry SET headers = %(headers)s::bytea
WHERE group_id = %(group_id)s AND topic_id = %(topic_id)s AND partition = %(partition)s AND "offset" = %(offset)s;
