-- A page of staged events in the order of staging; walks the primary key.
SELECT slot, seq, topic, id, key, type, timestamp_ms FROM penstock_staged
WHERE seq > :after_seq AND :after_slot IS NOT NULL
  AND (:topic IS NULL OR topic = :topic)
ORDER BY seq
LIMIT :limit;
