-- The events that tokens stand for; walks the primary key, locks nothing.
SELECT token, id, created_ms FROM penstock_token WHERE token = ANY(%s::bytea[]);
