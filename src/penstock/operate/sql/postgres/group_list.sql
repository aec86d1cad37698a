-- A page of the groups, by name, after one of them; walks the unique index on name.
SELECT name, id, created_ms, paused_ms, filter_version FROM penstock_group
WHERE name > %(after)s
ORDER BY name
LIMIT %(limit)s;
