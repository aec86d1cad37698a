-- Nothing to tell: the plans of SQLite do not depend on how many cursors there are. Locks and walks nothing.
SELECT 1;
