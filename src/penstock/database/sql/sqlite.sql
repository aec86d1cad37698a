-- SQLite's own forms: its catalog.

-- name: columns
-- Every column of our tables; reads the schema table, locks nothing.
SELECT t.name, c.name, c.type, 'not null: ' || c."notnull", 'default: ' || coalesce(c.dflt_value, ''), 'key: ' || c.pk
FROM sqlite_master t JOIN pragma_table_info(t.name) c
WHERE t.type = 'table' AND substr(t.name, 1, length(:prefix)) = :prefix;

-- name: definitions
-- Every view of ours, with its definition; reads the schema table, locks nothing.
SELECT 'view', name, sql FROM sqlite_master
WHERE type = 'view' AND substr(name, 1, length(:prefix)) = :prefix;

-- name: indexes
-- Every index of our tables, except the copies of a log in files: whether it is unique, and its columns;
-- reads the schema table, which is small.
SELECT t.name, 'index', CASE WHEN l."unique" THEN 'unique' ELSE 'plain' END,
       '(' || (SELECT group_concat(name, ', ') FROM pragma_index_info(l.name)) || ')'
FROM sqlite_master t JOIN pragma_index_list(t.name) l
WHERE t.type = 'table' AND substr(t.name, 1, length(:prefix)) = :prefix
 AND l.name <> 'copy_' || t.name;

-- name: meta_find
-- Whether the tables exist; reads the schema table, locks nothing.
SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'penstock_meta';

-- name: migrations_lock
-- Nothing to do: the framework's transaction is the one writer of the file. Reads nothing, locks nothing.
SELECT 1;

-- name: encoding
-- Text is Unicode in every file; reads no table, locks nothing.
SELECT 'UTF8';

-- name: sequence_cache
-- The number of values handed out at a time: with one writer, rowids rise one by one, in the order of
-- commits. Reads nothing, locks nothing.
SELECT 1 WHERE :sequence IS NOT NULL;

-- name: table_find
-- Whether a table exists; reads the schema table, locks nothing.
SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = :table;

-- name: table_texts
-- The definitions of our tables and views; reads the schema table, locks nothing.
SELECT name, sql FROM sqlite_master
WHERE type IN ('table', 'view') AND substr(name, 1, length(:prefix)) = :prefix ORDER BY name;
