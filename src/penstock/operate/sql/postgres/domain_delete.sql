-- Remove what was said about sharing a group; walks the primary key. The row is locked already.
DELETE FROM penstock_domain WHERE name = %(name)s;
