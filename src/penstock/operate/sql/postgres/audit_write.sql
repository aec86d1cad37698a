-- Note an action, in its own transaction; appends to the table, locks nothing.
INSERT INTO penstock_audit (at_ms, actor, action, subject, count)
VALUES (coalesce(%(now_ms)s::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint), %(actor)s, %(action)s, %(subject)s, %(count)s);
