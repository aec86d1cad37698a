-- Every column of our tables as SQLite describes it; reads the table of tables, locks nothing.
SELECT t.name, c.name, c.type, 'not null: ' || c."notnull", 'default: ' || coalesce(c.dflt_value, ''), 'key: ' || c.pk
FROM sqlite_master t JOIN pragma_table_info(t.name) c
WHERE t.type = 'table' AND substr(t.name, 1, length(:prefix)) = :prefix;
