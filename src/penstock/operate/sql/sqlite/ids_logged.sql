-- The ids and keys of a partition's records within bounds, but for erased ones; walks the primary key.
SELECT id, key FROM penstock_log
WHERE topic_id = :topic_id AND partition = :partition AND "offset" >= :start AND "offset" < :end
  AND type <> 'penstock.erased';
