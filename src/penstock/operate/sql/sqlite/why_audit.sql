-- What persons did that bears on single records, the newest first, up to so much; walks the primary key backwards.
SELECT at_ms, actor, action, subject FROM penstock_audit
WHERE action IN (SELECT value FROM json_each(:actions)) ORDER BY id DESC LIMIT :limit;
