-- Make domains unless they are there, in the order of their names; locks the new names.
INSERT INTO penstock_domain (name, version, members)
SELECT name, 0, '[]' FROM unnest(%(names)s::text[]) AS n (name) ORDER BY name ON CONFLICT (name) DO NOTHING;
