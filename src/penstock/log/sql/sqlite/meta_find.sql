-- Whether the tables are there; reads the table of tables, locks nothing.
SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'penstock_meta';
