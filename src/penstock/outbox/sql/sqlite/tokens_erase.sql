-- Remove the tokens of some events; reads the table: an index for it would cost every publish with a token.
DELETE FROM penstock_token WHERE id IN (SELECT value FROM json_each(:ids));
