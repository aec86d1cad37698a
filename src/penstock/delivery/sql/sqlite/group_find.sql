-- A group's id; walks the unique index on name.
SELECT id FROM penstock_group WHERE name = :name;
