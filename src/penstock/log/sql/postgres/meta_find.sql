-- Whether the tables are there, on the search path or in their schema; locks nothing.
SELECT 1 WHERE to_regclass('penstock_meta') IS NOT NULL;
