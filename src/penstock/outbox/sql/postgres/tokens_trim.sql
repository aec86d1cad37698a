-- Remove the oldest tokens, taken before a moment, at most so many; walks ix_penstock_token_created, locks those rows and
-- passes by what a caller has locked.
DELETE FROM penstock_token WHERE token = ANY(ARRAY(
    SELECT token FROM penstock_token WHERE created_ms < %(before_ms)s
    ORDER BY created_ms LIMIT %(limit)s FOR UPDATE SKIP LOCKED));
