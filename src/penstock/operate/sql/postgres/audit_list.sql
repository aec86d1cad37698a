-- A page of the audit, the newest first, before one of its entries; walks the primary key backwards, locks nothing.
SELECT id, at_ms, actor, action, subject, count FROM penstock_audit
WHERE id < %(before)s::bigint
  AND (%(action)s::text IS NULL OR action = %(action)s::text)
  AND (%(actor)s::text IS NULL OR actor = %(actor)s::text)
ORDER BY id DESC
LIMIT %(limit)s;
