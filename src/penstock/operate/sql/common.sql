-- The statements of this room for every engine, in the neutral SQL that database/statements.py describes. Locks are for
-- engines with many writers: in SQLite a transaction that writes is the only one.

-- == The audit

-- name: audit_list
-- A page of the audit, newest first, before a given entry; walks the primary key backwards, locks nothing.
SELECT id, at_ms, actor, action, subject, count FROM penstock_audit
WHERE id < :before::bigint
  AND (:action::text IS NULL OR action = :action::text)
  AND (:actor::text IS NULL OR actor = :actor::text)
  AND (:since_ms::bigint IS NULL OR at_ms >= :since_ms::bigint)
  AND (:before_ms::bigint IS NULL OR at_ms < :before_ms::bigint)
ORDER BY id DESC
LIMIT :limit;

-- name: audit_write
-- Record an action in its own transaction; appends to the table, locks nothing.
INSERT INTO penstock_audit (at_ms, actor, action, subject, count)
VALUES (now_ms(:now_ms), :actor, :action, :subject, :count);

-- == Schemas of values

-- name: value_schemas
-- All schemas, or those of a topic, without their descriptors; walks the primary key, locks nothing.
SELECT topic, type, message, added_by, added_ms FROM penstock_value_schema
WHERE :topic::text IS NULL OR topic = :topic::text
ORDER BY topic, type;

-- name: value_schema_of
-- The schema of a type of a topic, then the schema for all its types; walks the primary key, locks nothing.
SELECT message, descriptors FROM penstock_value_schema
WHERE topic = :topic AND (type = :type OR type = '')
ORDER BY type DESC;

-- name: value_schema_add
-- Add a schema, after value_schema_remove; locks its row.
INSERT INTO penstock_value_schema (topic, type, message, descriptors, added_by, added_ms)
VALUES (:topic, :type, :message, :descriptors, :added_by, now_ms(:now_ms));

-- name: value_schema_remove
-- Remove a schema; walks the primary key, locks its row.
DELETE FROM penstock_value_schema WHERE topic = :topic AND type = :type;

-- == Why a record is where it is

-- name: why_audit
-- The latest audit entries about single records, newest first; walks the primary key backwards, locks nothing.
SELECT at_ms, actor, action, subject FROM penstock_audit
WHERE action = ANY(:actions::text[]) ORDER BY id DESC LIMIT :limit;

-- name: open_lockers
-- Other clients' open transactions with locks on our tables: an engine with one writer has no list of them and returns no rows.
SELECT NULL, '', '', NULL, NULL, NULL WHERE 1 = 0;
