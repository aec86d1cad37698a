-- Hold domains; walks the primary key. Nothing to wait for: the transaction is the only writer.
SELECT name FROM penstock_domain WHERE name IN (SELECT value FROM json_each(:names)) ORDER BY name;
