-- Give a group's cursors back; release is a change of owner, so the epoch rises. Walks the primary key, locks the rows.
UPDATE penstock_cursor SET owner = NULL, epoch = epoch + 1
WHERE group_id = %(group_id)s AND topic_id = %(topic_id)s AND owner = %(owner)s;
