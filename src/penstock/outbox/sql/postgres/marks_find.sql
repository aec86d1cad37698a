-- Which of these transactions have committed: each wrote a mark, the id of its first event. Walks the primary key, locks
-- nothing.
SELECT id FROM penstock_token
WHERE token = ANY(ARRAY(SELECT convert_to(i.id, 'UTF8') FROM unnest(%(ids)s::text[]) AS i (id)));
