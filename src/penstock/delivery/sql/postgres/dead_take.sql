-- Remove dead letters that a person has decided on, and return them; with `logged` only those whose record the log still
-- holds. Walks the primary keys; locks those rows. The cursors' locks are held already.
DELETE FROM penstock_dead d
USING unnest(%(partitions)s::integer[], %(offsets)s::bigint[]) AS w (partition, place)
WHERE d.group_id = %(group_id)s AND d.topic_id = %(topic_id)s AND d.partition = w.partition AND d."offset" = w.place
  AND (NOT %(logged)s OR EXISTS (
        SELECT 1 FROM penstock_log l
        WHERE l.topic_id = %(topic_id)s AND l.partition = w.partition AND l."offset" = w.place))
RETURNING d.partition, d."offset", d.lane, d.holding;
