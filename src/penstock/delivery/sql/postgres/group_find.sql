-- A group's id; walks the unique index on name, locks nothing.
SELECT id FROM penstock_group WHERE name = %(name)s;
