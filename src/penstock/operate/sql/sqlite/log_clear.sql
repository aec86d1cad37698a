-- Remove some of the records of a topic that lie before its partitions begin; walks the primary keys: the cross join
-- keeps SQLite from walking the whole log.
DELETE FROM penstock_log WHERE rowid IN (
    SELECT l.rowid FROM penstock_head h
    CROSS JOIN penstock_log l ON l.topic_id = h.topic_id AND l.partition = h.partition AND l."offset" < h.start_offset
    WHERE h.topic_id = :topic_id LIMIT :limit);
