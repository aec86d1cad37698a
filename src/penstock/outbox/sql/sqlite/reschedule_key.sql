-- Give the scheduled events of a key another time in the caller's transaction; walks ix_penstock_scheduled_key.
UPDATE penstock_scheduled SET due_ms = ? WHERE key_hash = ? AND key = ? AND topic = ?;
