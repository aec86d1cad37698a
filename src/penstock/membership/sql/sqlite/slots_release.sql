-- Give all slots of a member back; release is a change of owner, so the epoch rises.
UPDATE penstock_slot SET owner = NULL, epoch = epoch + 1 WHERE owner = :id;
