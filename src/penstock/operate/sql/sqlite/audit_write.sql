-- Note an action, in its own transaction; appends to the table.
INSERT INTO penstock_audit (at_ms, actor, action, subject, count)
VALUES (coalesce(:now_ms, CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER)), :actor, :action, :subject, :count);
