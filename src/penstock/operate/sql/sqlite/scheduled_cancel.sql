-- Take some scheduled events back, the next due first; walks ix_penstock_scheduled_due.
DELETE FROM penstock_scheduled WHERE seq IN (
    SELECT seq FROM penstock_scheduled
    WHERE (:id IS NULL OR id = :id)
      AND (:topic IS NULL OR topic = :topic)
      AND (:key_hash IS NULL OR key_hash = :key_hash)
      AND (:key IS NULL OR key = :key)
      AND (:owner IS NULL OR owner = :owner)
      AND (:before_ms IS NULL OR due_ms < :before_ms)
    ORDER BY due_ms, seq LIMIT :limit);
