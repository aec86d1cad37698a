-- Give the scheduled events of an owner another time in the caller's transaction; walks ix_penstock_scheduled_owner.
UPDATE penstock_scheduled SET due_ms = ? WHERE owner = ? AND topic = ?;
