-- Take tokens in the caller's transaction, those that are free, in the given order: it must be sorted, since this waits
-- for transactions that have taken one of them and not ended.
INSERT INTO penstock_token (token, id, created_ms)
SELECT token, id, created_ms
FROM unnest(%s::bytea[], %s::text[], %s::bigint[]) WITH ORDINALITY AS t (token, id, created_ms, place)
ORDER BY place
ON CONFLICT (token) DO NOTHING;
