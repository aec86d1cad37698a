-- Remove the oldest tokens, taken before a moment, at most so many; walks ix_penstock_token_created.
DELETE FROM penstock_token WHERE token IN (
    SELECT token FROM penstock_token WHERE created_ms < :before_ms ORDER BY created_ms LIMIT :limit);
