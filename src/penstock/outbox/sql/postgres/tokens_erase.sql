-- Remove the tokens of some events; reads the table: an index for it would cost every publish with a token.
DELETE FROM penstock_token WHERE id = ANY(%(ids)s::text[]);
