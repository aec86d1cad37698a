-- Give a scheduled event another time in the caller's transaction; walks ix_penstock_scheduled_id.
UPDATE penstock_scheduled SET due_ms = ? WHERE id = ? AND topic = ?;
