-- One fact about this store; walks the primary key.
SELECT value FROM penstock_meta WHERE name = %(name)s;
