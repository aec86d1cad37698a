-- What domains say: their version, and who was given a share; walks the primary key.
SELECT name, version, members FROM penstock_domain WHERE name IN (SELECT value FROM json_each(:names));
