-- Take the scheduled events of an owner back in the caller's transaction; walks ix_penstock_scheduled_owner.
DELETE FROM penstock_scheduled WHERE owner = ? AND topic = ?;
