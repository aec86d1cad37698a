-- The statements of this room for every engine, in the neutral SQL that database/statements.py describes.

-- name: schema_read
-- The last migration applied, and the oldest version whose code can use the tables; walks the primary key.
SELECT name, value FROM penstock_meta WHERE name IN ('schema_version', 'usable_from');

-- name: usable_raise
-- Raise the oldest version whose code can use the tables; walks the primary key, locks that row.
UPDATE penstock_meta SET value = :version::text
WHERE name = 'usable_from' AND CAST(value AS integer) < CAST(:version::text AS integer);

-- name: version_read
-- The last migration applied; walks the primary key.
SELECT value FROM penstock_meta WHERE name = 'schema_version';

-- name: now
-- The database's time in milliseconds, unless a time is given; reads and locks nothing.
SELECT now_ms(:now_ms);

-- name: meta_read
-- One fact about this store; walks the primary key.
SELECT value FROM penstock_meta WHERE name = :name;

-- name: meta_forget
-- Remove a fact about the store, to add it anew in the same transaction; walks the primary key.
DELETE FROM penstock_meta WHERE name = :name;

-- name: meta_add
-- Add a new fact about the store; walks the primary key.
INSERT INTO penstock_meta (name, value) VALUES (:name, :value);

-- name: meta_keep
-- Say a fact about the store unless it is said, as by another at the same moment; walks the primary key.
-- without on_conflict: instead(meta_keep_missing)
INSERT INTO penstock_meta (name, value) VALUES (:name, :value) ON CONFLICT (name) DO NOTHING;

-- name: meta_keep_missing
-- The second form of meta_keep; walks the primary key.
INSERT INTO penstock_meta (name, value) SELECT :name, :value
WHERE NOT EXISTS (SELECT 1 FROM penstock_meta m WHERE m.name = :name);

-- name: incarnation_raise
-- Raise the incarnation of the log, unless another process has done so; walks the primary key, locks that row.
UPDATE penstock_meta SET value = :raised WHERE name = 'incarnation' AND value = :known;
