-- Give all slots of a member back; release is a change of owner, so the epoch rises. Locks them in slot order.
-- As an array: the subquery of an IN may be run anew, locks and all, for each row of the table.
UPDATE penstock_slot SET owner = NULL, epoch = epoch + 1
WHERE slot = ANY(ARRAY(SELECT slot FROM penstock_slot WHERE owner = %(id)s ORDER BY slot FOR UPDATE));
