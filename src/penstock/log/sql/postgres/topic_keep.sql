-- Topics by name; walks the unique index on name. Locks them against deletion until the transaction ends.
SELECT id, name, partitions, partitioner FROM penstock_topic WHERE name = ANY(%(names)s) ORDER BY id FOR KEY SHARE;
