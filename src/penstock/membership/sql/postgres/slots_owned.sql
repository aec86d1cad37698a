-- The slots a member owns and their epochs; reads the table: 256 rows, locks nothing.
SELECT slot, epoch FROM penstock_slot WHERE owner = %(id)s;
