-- The filters of groups; walks the primary key.
SELECT id, filters FROM penstock_group WHERE id IN (SELECT value FROM json_each(:groups));
