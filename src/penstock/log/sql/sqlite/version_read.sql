-- The last migration applied; walks the primary key.
SELECT value FROM penstock_meta WHERE name = 'schema_version';
