-- Remove a token that was taken too long ago to count; walks the primary key.
DELETE FROM penstock_token WHERE token = ? AND created_ms <= ?;
