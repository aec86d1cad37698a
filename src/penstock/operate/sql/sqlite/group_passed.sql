-- What groups have passed above their cursors; walks the primary key.
SELECT group_id, topic_id, passed FROM penstock_cursor
WHERE group_id IN (SELECT value FROM json_each(:groups)) AND passed <> '';
