-- Give a scheduled event another time in the caller's transaction; walks ix_penstock_scheduled_id, locks that row. A move that
-- has locked it first wins: this waits for its end and finds nothing.
UPDATE penstock_scheduled SET due_ms = %s WHERE id = %s AND topic = %s;
