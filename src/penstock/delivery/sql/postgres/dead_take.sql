-- Remove dead letters that are decided on, and return them; walks the primary key, locks those rows. The cursors' locks are
-- held already.
DELETE FROM penstock_dead d
USING unnest(%(partitions)s::integer[], %(offsets)s::bigint[]) AS w (partition, place)
WHERE d.group_id = %(group_id)s AND d.topic_id = %(topic_id)s AND d.partition = w.partition AND d."offset" = w.place
RETURNING d.partition, d."offset", d.lane, d.holding;
