-- Make domains unless they are there; walks the primary key.
INSERT INTO penstock_domain (name, version, members)
SELECT value, 0, '[]' FROM json_each(:names) WHERE true ON CONFLICT (name) DO NOTHING;
