-- Set cursors, in a new epoch and version, so that nothing their owner still settles is written. One that lives has not
-- crashed, so it is no longer the owner; one that does not stays, and is counted by whoever takes over. What was tried
-- begins anew. Walks the primary key; the rows are locked already.
UPDATE penstock_cursor c
SET "offset" = w.place, passed = '', epoch = c.epoch + 1, version = c.version + 1, trying = NULL,
    crashes = least(c.crashes, 1),
    owner = CASE WHEN c.owner = ANY(%(living)s::text[]) THEN NULL ELSE c.owner END
FROM unnest(%(partitions)s::integer[], %(offsets)s::bigint[]) AS w (partition, place)
WHERE c.group_id = %(group_id)s AND c.topic_id = %(topic_id)s AND c.partition = w.partition;
