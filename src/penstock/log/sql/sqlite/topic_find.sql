-- Topics by name; walks the unique index on name.
SELECT id, name, partitions, partitioner FROM penstock_topic WHERE name IN (SELECT value FROM json_each(:names));
