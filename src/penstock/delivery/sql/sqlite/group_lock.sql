-- The turn to take a group's cursors; walks the primary key. Nothing to lock: the transaction is the only writer.
SELECT id FROM penstock_group WHERE id = :group_id;
