-- Take the slots that a member should own and that nobody in this list of living members owns; a new owner is a new
-- epoch. Reads the table: 256 rows.
UPDATE penstock_slot SET owner = :id, epoch = epoch + 1
WHERE owner_wanted = :id AND (owner IS NULL OR owner NOT IN (SELECT value FROM json_each(:living)));
