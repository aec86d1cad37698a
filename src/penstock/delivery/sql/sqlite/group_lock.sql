-- The turn to take a group's cursors, and the filters of its handlers, the present one first; walks the primary key.
-- Nothing to lock: the transaction is the only writer.
SELECT id, filters, filter_version FROM penstock_group WHERE id = :group_id;
