-- The version of a group's filter; walks the primary key. Nothing to lock: the transaction is the only writer.
SELECT filter_version FROM penstock_group WHERE id = :group_id;
