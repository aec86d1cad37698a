-- Mark the dead letters of some partitions as older than a reset; those from an offset on hold their lanes no more. Walks
-- the primary key; locks those rows. The cursors' locks are held already.
UPDATE penstock_dead d
SET reset_ms = (SELECT coalesce(%(now_ms)s::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)),
    holding = CASE WHEN d."offset" >= w.place THEN false ELSE d.holding END
FROM unnest(%(partitions)s::integer[], %(offsets)s::bigint[]) AS w (partition, place)
WHERE d.group_id = %(group_id)s AND d.topic_id = %(topic_id)s AND d.partition = w.partition;
