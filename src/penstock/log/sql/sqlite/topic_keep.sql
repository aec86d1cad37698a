-- Topics by name; walks the unique index on name. Nothing to lock: the transaction is the only writer.
SELECT id, name, partitions, partitioner FROM penstock_topic WHERE name IN (SELECT value FROM json_each(:names));
