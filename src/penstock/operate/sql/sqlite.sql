-- SQLite's own forms: CROSS JOIN fixes the order of tables.

-- == Events that are not in the log yet

-- name: staged_page
-- A page of staged events in the order of staging; walks the primary key.
SELECT slot, seq, topic, id, key, type, timestamp_ms FROM penstock_staged
WHERE seq > :after_seq AND :after_slot IS NOT NULL
  AND (:topic IS NULL OR topic = :topic)
ORDER BY seq
LIMIT :limit;

-- name: staged_by_key
-- The oldest staged event of a key; walks the primary key, up to a limit of rows.
SELECT topic, id, key, type, timestamp_ms, slot, NULL FROM (
    SELECT * FROM penstock_staged ORDER BY seq LIMIT :walk)
WHERE slot = :slot AND key_hash = :key_hash AND key = :key AND (:topic IS NULL OR topic = :topic)
ORDER BY seq LIMIT 1;

-- name: open_writers
-- Open transactions that may have staged events: SQLite has no table of them, so this reads nothing.
SELECT NULL, '', '', NULL, NULL, NULL WHERE 0;
