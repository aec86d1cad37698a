-- Take all content out of some records of an owner, keeping their offsets; walks the primary key
-- once for each (LATERAL, LIMIT), locks those rows. The cursors' locks are held already.
UPDATE penstock_log
SET key = NULL, value = NULL, headers = NULL, owner = NULL, type = 'penstock.erased'
WHERE owner = %(owner)s AND ctid = ANY(ARRAY(
    SELECT l.ctid
    FROM unnest(%(partitions)s::integer[], %(offsets)s::bigint[]) AS w (partition, place)
    CROSS JOIN LATERAL (
        SELECT r.ctid FROM penstock_log r
        WHERE r.topic_id = %(topic_id)s AND r.partition = w.partition AND r."offset" = w.place
        LIMIT 1) AS l));
