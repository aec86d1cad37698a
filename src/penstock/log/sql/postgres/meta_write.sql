-- Set one fact about this store; locks that row.
INSERT INTO penstock_meta (name, value) VALUES (%(name)s, %(value)s)
ON CONFLICT (name) DO UPDATE SET value = excluded.value;
