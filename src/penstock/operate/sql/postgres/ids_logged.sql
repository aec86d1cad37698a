-- The ids and keys of a partition's records within bounds, but for erased ones; walks the primary key, locks nothing.
SELECT id, key FROM penstock_log
WHERE topic_id = %(topic_id)s AND partition = %(partition)s AND "offset" >= %(start)s AND "offset" < %(end)s
  AND type <> 'penstock.erased';
