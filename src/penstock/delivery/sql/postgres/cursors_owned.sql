-- The cursors a member owns, with their epochs and whom they are meant for; walks the primary key, locks nothing.
SELECT partition, epoch, owner_wanted FROM penstock_cursor
WHERE group_id = %(group_id)s AND topic_id = %(topic_id)s AND owner = %(owner)s;
