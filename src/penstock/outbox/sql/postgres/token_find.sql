-- The event a token stands for; walks the primary key, locks nothing.
SELECT token, id, created_ms FROM penstock_token WHERE token = %s;
