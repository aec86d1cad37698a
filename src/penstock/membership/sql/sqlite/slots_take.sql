-- Take slots that nobody in this list of living members owns; a new owner is a new epoch.
UPDATE penstock_slot SET owner = :id, epoch = epoch + 1
WHERE owner IS NULL OR owner NOT IN (SELECT value FROM json_each(:living))
RETURNING slot, epoch;
