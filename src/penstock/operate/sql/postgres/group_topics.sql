-- The topics that a group has cursors on; walks the primary key.
SELECT DISTINCT topic_id FROM penstock_cursor WHERE group_id = %(group_id)s;
