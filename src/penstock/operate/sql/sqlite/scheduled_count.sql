-- How many scheduled events match; reads the table or one of its indexes.
SELECT count(*) FROM penstock_scheduled
WHERE (:id IS NULL OR id = :id)
  AND (:topic IS NULL OR topic = :topic)
  AND (:key_hash IS NULL OR key_hash = :key_hash)
  AND (:key IS NULL OR key = :key)
  AND (:owner IS NULL OR owner = :owner)
  AND (:before_ms IS NULL OR due_ms < :before_ms);
