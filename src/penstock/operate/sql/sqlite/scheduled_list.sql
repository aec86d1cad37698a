-- A page of scheduled events, the next due first, after a place in that order; walks ix_penstock_scheduled_due.
SELECT due_ms, seq, topic, key, owner, type, id FROM penstock_scheduled
WHERE (due_ms, seq) > (:after_due, :after_seq)
  AND (:id IS NULL OR id = :id)
  AND (:topic IS NULL OR topic = :topic)
  AND (:key_hash IS NULL OR key_hash = :key_hash)
  AND (:key IS NULL OR key = :key)
  AND (:owner IS NULL OR owner = :owner)
  AND (:before_ms IS NULL OR due_ms < :before_ms)
ORDER BY due_ms, seq
LIMIT :limit;
