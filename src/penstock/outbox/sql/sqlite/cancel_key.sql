-- Take the scheduled events of a key back in the caller's transaction; walks ix_penstock_scheduled_key.
DELETE FROM penstock_scheduled WHERE key_hash = ? AND key = ? AND topic = ?;
