-- Wait for the turn to take slots; locks one row that all takers lock, so that each sees what the one before it took.
SELECT name FROM penstock_meta WHERE name = 'log_id' FOR UPDATE;
