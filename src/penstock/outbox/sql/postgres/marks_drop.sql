-- Remove marks that have been read; walks the primary key, locks those rows, which nobody else wants.
DELETE FROM penstock_token
WHERE token = ANY(ARRAY(SELECT convert_to(i.id, 'UTF8') FROM unnest(%(ids)s::text[]) AS i (id)));
