-- A staged event by its id; reads the table up to so many rows, since it has no index on ids, locks nothing.
SELECT topic, id, key, type, timestamp_ms, slot, NULL::bigint FROM (
    SELECT topic, id, key, type, timestamp_ms, slot FROM penstock_staged LIMIT %(walk)s) AS s
WHERE id = %(id)s AND (%(topic)s::text IS NULL OR topic = %(topic)s::text) LIMIT 1;
