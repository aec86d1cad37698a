-- Every column of our tables as the information schema describes it; locks nothing.
SELECT table_name, column_name, data_type, 'nullable: ' || is_nullable, 'default: ' || coalesce(column_default, '')
FROM information_schema.columns
WHERE table_schema = coalesce(%(schema)s, current_schema()) AND starts_with(table_name, %(prefix)s);
