-- Open transactions that may have staged something: SQLite has no table of them, and reads nothing here.
SELECT NULL, '', '', NULL, NULL, NULL WHERE 0;
