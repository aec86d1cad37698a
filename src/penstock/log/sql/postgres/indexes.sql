-- Every index of our tables: whether it is unique, and what it holds; reads the catalog, locks nothing.
SELECT t.relname, 'index', CASE WHEN i.indisunique THEN 'unique' ELSE 'plain' END,
       substring(pg_get_indexdef(i.indexrelid) FROM '[(].*')
FROM pg_index i
JOIN pg_class t ON t.oid = i.indrelid
JOIN pg_namespace n ON n.oid = t.relnamespace
WHERE n.nspname = coalesce(%(schema)s, current_schema()) AND starts_with(t.relname, %(prefix)s);
