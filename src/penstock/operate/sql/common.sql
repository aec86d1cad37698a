-- The statements of this room for every engine, in the neutral SQL that log/sql/statements.py describes. Locks are for
-- engines with many writers: in SQLite a transaction that writes is the only one.

-- == The audit and what the store holds

-- name: audit_list
-- A page of the audit, the newest first, before one of its entries; walks the primary key backwards, locks nothing.
SELECT id, at_ms, actor, action, subject, count FROM penstock_audit
WHERE id < :before::bigint
  AND (:action::text IS NULL OR action = :action::text)
  AND (:actor::text IS NULL OR actor = :actor::text)
  AND (:since_ms::bigint IS NULL OR at_ms >= :since_ms::bigint)
  AND (:before_ms::bigint IS NULL OR at_ms < :before_ms::bigint)
ORDER BY id DESC
LIMIT :limit;

-- name: audit_write
-- Note an action, in its own transaction; appends to the table, locks nothing.
INSERT INTO penstock_audit (at_ms, actor, action, subject, count)
VALUES (now_ms(:now_ms), :actor, :action, :subject, :count);

-- == Why a record is where it is

-- name: why_audit
-- What persons did that bears on single records, the newest first, up to so much; walks the primary key backwards, locks nothing.
SELECT at_ms, actor, action, subject FROM penstock_audit
WHERE action = ANY(:actions::text[]) ORDER BY id DESC LIMIT :limit;

-- name: open_lockers
-- The open transactions of others that hold locks on our tables: an engine with one writer has no table of them, and reads
-- nothing here.
SELECT NULL, '', '', NULL, NULL, NULL WHERE 1 = 0;
