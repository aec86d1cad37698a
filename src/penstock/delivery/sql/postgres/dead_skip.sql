-- Let dead letters hold their lanes no more, and return those that did; walks the primary key, locks those rows. The
-- cursors' locks are held already.
UPDATE penstock_dead d SET holding = false
FROM unnest(%(partitions)s::integer[], %(offsets)s::bigint[]) AS w (partition, place)
WHERE d.group_id = %(group_id)s AND d.topic_id = %(topic_id)s AND d.partition = w.partition AND d."offset" = w.place
  AND d.holding
RETURNING d.partition, d."offset", d.lane, true;
