-- The turn to take a group's cursors, and the filters of its handlers, the present one first, and since when it is
-- paused; walks the primary key. Nothing to lock: the transaction is the only writer.
SELECT id, filters, filter_version, paused_ms FROM penstock_group WHERE id = :group_id;
