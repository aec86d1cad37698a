-- Take a scheduled event back in the caller's transaction; walks ix_penstock_scheduled_id, locks that row. A move that has locked
-- it first wins: this waits for its end and finds nothing.
DELETE FROM penstock_scheduled WHERE id = %s AND topic = %s;
