-- Topics by name; walks the unique index on name, locks nothing.
SELECT id, name, partitions, partitioner FROM penstock_topic WHERE name = ANY(%(names)s);
