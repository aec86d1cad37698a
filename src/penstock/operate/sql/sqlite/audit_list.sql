-- A page of the audit, the newest first, before one of its entries; walks the primary key backwards.
SELECT id, at_ms, actor, action, subject, count FROM penstock_audit
WHERE id < :before
  AND (:action IS NULL OR action = :action)
  AND (:actor IS NULL OR actor = :actor)
ORDER BY id DESC
LIMIT :limit;
