-- The event a token stands for; walks the primary key.
SELECT token, id, created_ms FROM penstock_token WHERE token = ?;
