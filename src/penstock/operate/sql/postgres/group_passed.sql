-- What groups have passed above their cursors; walks the primary key.
SELECT group_id, topic_id, passed FROM penstock_cursor
WHERE group_id = ANY(%(groups)s::integer[]) AND passed <> '';
