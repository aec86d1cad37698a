-- Remove marks that have been read; walks the primary key.
DELETE FROM penstock_token WHERE token IN (SELECT CAST(value AS BLOB) FROM json_each(:ids));
