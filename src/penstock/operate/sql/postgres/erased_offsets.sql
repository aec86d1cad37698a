-- The erased records of a partition within bounds; walks the primary key, locks nothing.
SELECT "offset", id FROM penstock_log
WHERE topic_id = %(topic_id)s AND partition = %(partition)s AND "offset" >= %(start)s AND "offset" < %(end)s
  AND type = 'penstock.erased' ORDER BY "offset";
