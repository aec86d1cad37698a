-- A group by name, with its filters; walks the unique index on name.
SELECT name, id, created_ms, paused_ms, filter_version, filters FROM penstock_group WHERE name = :name;
