-- Remove the cursors of a group; walks the primary key, locks the rows.
DELETE FROM penstock_cursor WHERE group_id = :group_id;
