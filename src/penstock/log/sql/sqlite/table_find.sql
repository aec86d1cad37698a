-- Whether a table is there.
SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = :table;
