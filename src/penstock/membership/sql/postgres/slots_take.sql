-- Take slots that nobody in this list of living members owns; a new owner is a new epoch. Passes by rows that are
-- locked: their owner is in the middle of a move, and the next try will find them.
-- As an array: the subquery of an IN may be run anew, locks and all, for each row of the table.
UPDATE penstock_slot SET owner = %(id)s, epoch = epoch + 1
WHERE slot = ANY(ARRAY(
    SELECT slot FROM penstock_slot WHERE owner IS NULL OR owner <> ALL(%(living)s::text[])
    ORDER BY slot FOR UPDATE SKIP LOCKED))
RETURNING slot, epoch;
