-- The oldest staged event of a key; walks the primary key of one slot, up to so many rows, locks nothing.
SELECT topic, id, key, type, timestamp_ms, slot, NULL::bigint FROM (
    SELECT * FROM penstock_staged WHERE slot = %(slot)s ORDER BY seq LIMIT %(walk)s) AS s
WHERE key_hash = %(key_hash)s AND key = %(key)s AND (%(topic)s::text IS NULL OR topic = %(topic)s::text)
ORDER BY seq LIMIT 1;
