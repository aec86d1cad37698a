-- Give back the slots of a member that it should not own; release is a change of owner, so the epoch rises. Reads the
-- table: 256 rows.
UPDATE penstock_slot SET owner = NULL, epoch = epoch + 1 WHERE owner = :id AND owner_wanted IS NOT :id;
