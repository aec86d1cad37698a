-- Take back scheduled events in the caller's transaction; walks ix_scheduled_id.
DELETE FROM penstock_scheduled WHERE id = ? AND topic = ?;
