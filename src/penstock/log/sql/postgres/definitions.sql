-- Every view and function of ours, and what it is; reads the catalog, locks nothing.
SELECT 'view', v.viewname, v.definition
FROM pg_views v
WHERE v.schemaname = coalesce(%(schema)s, current_schema()) AND starts_with(v.viewname, %(prefix)s)
UNION ALL
SELECT 'function', p.proname, p.provolatile::text || ' ' || p.prosrc
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE n.nspname = coalesce(%(schema)s, current_schema()) AND starts_with(p.proname, %(prefix)s);
