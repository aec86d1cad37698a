-- Every index of our tables: whether it is unique, and what it holds; reads the schema table, which is small.
SELECT t.name, 'index', CASE WHEN l."unique" THEN 'unique' ELSE 'plain' END,
       '(' || (SELECT group_concat(name, ', ') FROM pragma_index_info(l.name)) || ')'
FROM sqlite_master t JOIN pragma_index_list(t.name) l
WHERE t.type = 'table' AND substr(t.name, 1, length(:prefix)) = :prefix;
