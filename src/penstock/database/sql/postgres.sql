-- PostgreSQL's own forms: its catalog, and the locks that it needs.

-- name: columns
-- Every column of our tables from the information schema; views are compared whole. Locks nothing.
SELECT c.table_name, c.column_name, c.data_type, 'nullable: ' || c.is_nullable, 'default: ' || coalesce(c.column_default, '')
FROM information_schema.columns c
JOIN information_schema.tables t ON t.table_schema = c.table_schema AND t.table_name = c.table_name
WHERE t.table_type = 'BASE TABLE' AND t.table_schema = coalesce(:schema, current_schema())
  AND starts_with(t.table_name, :prefix);

-- name: definitions
-- Every view and function of ours, with its definition; reads the catalog, locks nothing.
SELECT 'view', v.viewname, v.definition
FROM pg_views v
WHERE v.schemaname = coalesce(:schema, current_schema()) AND starts_with(v.viewname, :prefix)
UNION ALL
SELECT 'function', p.proname, p.provolatile::text || ' ' || p.prosrc
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE n.nspname = coalesce(:schema, current_schema()) AND starts_with(p.proname, :prefix);

-- name: indexes
-- Every index of our tables: whether it is unique, and its columns; reads the catalog, locks nothing.
SELECT t.relname, 'index', CASE WHEN i.indisunique THEN 'unique' ELSE 'plain' END,
       substring(pg_get_indexdef(i.indexrelid) FROM '[(].*')
FROM pg_index i
JOIN pg_class t ON t.oid = i.indrelid
JOIN pg_namespace n ON n.oid = t.relnamespace
WHERE n.nspname = coalesce(:schema, current_schema()) AND starts_with(t.relname, :prefix);

-- name: meta_find
-- Whether the tables exist, on the search path or in their schema; locks nothing.
SELECT 1 WHERE to_regclass('penstock_meta') IS NOT NULL;

-- name: migrations_lock
-- Makes a second migration wait until this transaction has ended; locks a number that means "penstock".
SELECT pg_advisory_xact_lock(8099000947049456491);

-- name: encoding
-- The encoding of the database; reads no table, locks nothing.
SELECT current_setting('server_encoding');

-- name: sequence_cache
-- The number of values a session takes from the staging sequence at a time; locks nothing.
SELECT seqcache FROM pg_sequence WHERE seqrelid = to_regclass(:sequence);

-- name: table_find
-- Whether a table exists, on the search path or in the schema of its name; locks nothing.
SELECT 1 WHERE to_regclass(:table) IS NOT NULL;
