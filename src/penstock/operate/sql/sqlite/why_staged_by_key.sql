-- The oldest staged event of a key; walks the primary key, up to so many rows.
SELECT topic, id, key, type, timestamp_ms, slot, NULL FROM (
    SELECT * FROM penstock_staged ORDER BY seq LIMIT :walk)
WHERE slot = :slot AND key_hash = :key_hash AND key = :key AND (:topic IS NULL OR topic = :topic)
ORDER BY seq LIMIT 1;
