-- The filters of groups, to be changed perhaps; locks the groups in the order of their ids.
SELECT id, filters FROM penstock_group WHERE id = ANY(%(groups)s::integer[]) ORDER BY id FOR NO KEY UPDATE;
