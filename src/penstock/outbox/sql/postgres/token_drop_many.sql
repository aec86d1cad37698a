-- Remove tokens that were taken too long ago to count; walks the primary key, locks those rows in the given order, which
-- must be sorted.
DELETE FROM penstock_token
WHERE token = ANY(ARRAY(
    SELECT t.token
    FROM unnest(%s::bytea[], %s::bigint[]) WITH ORDINALITY AS o (token, before_ms, place)
    CROSS JOIN LATERAL (
        SELECT f.token FROM penstock_token f WHERE f.token = o.token AND f.created_ms <= o.before_ms
        LIMIT 1 FOR UPDATE) AS t
    ORDER BY o.place));
