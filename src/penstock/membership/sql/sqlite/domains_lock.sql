-- Hold domains, to work out who should own what; walks the primary key. Nothing to lock: the transaction is the only
-- writer.
SELECT name FROM penstock_domain WHERE name IN (SELECT value FROM json_each(:names)) ORDER BY name;
