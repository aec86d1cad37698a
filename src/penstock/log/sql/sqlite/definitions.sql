-- Every view of ours, and what it is; reads the table of tables, locks nothing.
SELECT 'view', name, sql FROM sqlite_master
WHERE type = 'view' AND substr(name, 1, length(:prefix)) = :prefix;
