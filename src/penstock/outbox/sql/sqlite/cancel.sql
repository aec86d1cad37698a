-- Take a scheduled event back in the caller's transaction; walks ix_penstock_scheduled_id.
DELETE FROM penstock_scheduled WHERE id = ? AND topic = ?;
