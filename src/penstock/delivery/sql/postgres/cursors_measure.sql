-- Tell the planner how many cursors there are, when a group has come: without that it takes them for a handful, and a
-- settling walks all of them for each. Locks the table against other ANALYZE and VACUUM only.
ANALYZE penstock_cursor;
