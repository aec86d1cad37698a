-- The headers of dead letters, by their places; walks the primary key, locks nothing. The cursors' locks are held already.
SELECT d.partition, d."offset", d.headers
FROM unnest(%(partitions)s::integer[], %(offsets)s::bigint[]) AS w (partition, place)
JOIN penstock_dead d ON d.group_id = %(group_id)s AND d.topic_id = %(topic_id)s AND d.partition = w.partition
 AND d."offset" = w.place;
