-- Remove some staged events of an owner and return their ids; walks ix_penstock_staged_owner.
DELETE FROM penstock_staged WHERE rowid IN (
    SELECT rowid FROM penstock_staged WHERE owner = :owner LIMIT :limit)
RETURNING id;
