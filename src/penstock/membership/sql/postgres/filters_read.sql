-- The filters of groups; walks the primary key, locks nothing.
SELECT id, filters FROM penstock_group WHERE id = ANY(%(groups)s::integer[]);
