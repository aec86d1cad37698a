-- Let cursors be taken afresh: the epoch rises, so that nothing their owner still settles is written. One that lives has
-- not crashed, so it is no longer the owner; one that does not stays, and is counted by whoever takes over. `anew`: the
-- record that was tried is to be tried from the beginning. Walks the primary key; the rows are locked already.
UPDATE penstock_cursor c
SET epoch = c.epoch + 1, owner = CASE WHEN c.owner = ANY(%(living)s::text[]) THEN NULL ELSE c.owner END,
    trying = CASE WHEN s.anew THEN NULL ELSE c.trying END,
    crashes = CASE WHEN s.anew THEN least(c.crashes, 1) ELSE c.crashes END
FROM unnest(%(partitions)s::integer[], %(anew)s::boolean[]) AS s (partition, anew)
WHERE c.group_id = %(group_id)s AND c.topic_id = %(topic_id)s AND c.partition = s.partition;
