-- Remove the waiting lanes of a group; walks the primary key, locks the rows.
DELETE FROM penstock_lane WHERE group_id = %(group_id)s;
