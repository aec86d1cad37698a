-- Since when a group is given nothing; walks the primary key.
SELECT paused_ms FROM penstock_group WHERE id = :group_id;
