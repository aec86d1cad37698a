-- Every column of our tables as the information schema describes it; views are compared whole. Locks nothing.
SELECT c.table_name, c.column_name, c.data_type, 'nullable: ' || c.is_nullable, 'default: ' || coalesce(c.column_default, '')
FROM information_schema.columns c
JOIN information_schema.tables t ON t.table_schema = c.table_schema AND t.table_name = c.table_name
WHERE t.table_type = 'BASE TABLE' AND t.table_schema = coalesce(%(schema)s, current_schema())
  AND starts_with(t.table_name, %(prefix)s);
