-- Give a group nothing, unless it is so already; walks the primary key, locks the row.
UPDATE penstock_group SET paused_ms = coalesce(%(now_ms)s::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)
WHERE id = %(group_id)s AND paused_ms IS NULL;
