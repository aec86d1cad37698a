-- A staged event by its id; reads the table up to so many rows, since it has no index on ids.
SELECT topic, id, key, type, timestamp_ms, slot, NULL FROM (
    SELECT topic, id, key, type, timestamp_ms, slot FROM penstock_staged LIMIT :walk) AS s
WHERE id = :id AND (:topic IS NULL OR topic = :topic) LIMIT 1;
