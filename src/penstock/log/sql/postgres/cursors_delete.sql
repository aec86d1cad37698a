-- Remove every group's cursors on a topic; reads the table, which is small.
DELETE FROM penstock_cursor WHERE topic_id = %(topic_id)s;
