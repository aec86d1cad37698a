-- Remove a group's name; walks the primary key. The row is locked already.
DELETE FROM penstock_group WHERE id = :group_id;
