-- Remove some scheduled events of an owner and return their ids; walks ix_penstock_scheduled_owner.
DELETE FROM penstock_scheduled WHERE rowid IN (
    SELECT rowid FROM penstock_scheduled WHERE owner = :owner LIMIT :limit)
RETURNING id;
