-- What persons did that bears on single records, the newest first, up to so much; walks the primary key backwards, locks nothing.
SELECT at_ms, actor, action, subject FROM penstock_audit
WHERE action = ANY (%(actions)s::text[]) ORDER BY id DESC LIMIT %(limit)s;
