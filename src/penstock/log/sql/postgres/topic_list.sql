-- All topics; reads the table.
SELECT id, name, partitions, partitioner FROM penstock_topic ORDER BY name;
