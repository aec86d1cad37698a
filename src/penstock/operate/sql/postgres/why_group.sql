-- A group by its name; walks the unique index on name, locks nothing.
SELECT id, name, created_ms, filters, paused_ms, seen_ms FROM penstock_group WHERE name = %(name)s;
