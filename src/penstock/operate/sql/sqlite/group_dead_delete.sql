-- Remove the dead letters of a group; walks the primary key, locks the rows.
DELETE FROM penstock_dead WHERE group_id = :group_id;
