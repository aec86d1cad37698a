-- The erased records of a partition within bounds; walks the primary key.
SELECT "offset", id FROM penstock_log
WHERE topic_id = :topic_id AND partition = :partition AND "offset" >= :start AND "offset" < :end
  AND type = 'penstock.erased' ORDER BY "offset";
