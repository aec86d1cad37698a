-- Remove a token that was taken too long ago to count; walks the primary key, locks that row.
DELETE FROM penstock_token WHERE token = %s AND created_ms <= %s;
