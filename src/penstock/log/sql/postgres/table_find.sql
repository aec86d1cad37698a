-- Whether a table is there, on the search path or in the schema its name says; locks nothing.
SELECT 1 WHERE to_regclass(%(table)s) IS NOT NULL;
