-- Remove some of the records of a topic that lie before its partitions begin; walks the primary keys, once for each
-- partition, locks the rows.
DELETE FROM penstock_log WHERE ctid = ANY(ARRAY(
    SELECT l.ctid FROM penstock_head h
    CROSS JOIN LATERAL (
        SELECT r.ctid FROM penstock_log r
        WHERE r.topic_id = h.topic_id AND r.partition = h.partition AND r."offset" < h.start_offset
        ORDER BY r."offset" LIMIT %(limit)s) AS l
    WHERE h.topic_id = %(topic_id)s LIMIT %(limit)s));
