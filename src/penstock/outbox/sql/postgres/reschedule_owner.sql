-- Give the scheduled events of an owner another time in the caller's transaction; walks ix_penstock_scheduled_owner, locks its
-- rows in the order of seq, so that two callers wait in line. A move that has locked one first wins: this waits and finds it
-- gone.
UPDATE penstock_scheduled SET due_ms = %s WHERE seq = ANY(ARRAY(
    SELECT seq FROM penstock_scheduled WHERE owner = %s AND topic = %s ORDER BY seq FOR UPDATE));
