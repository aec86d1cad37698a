-- The slots a member owns and their epochs; reads the table: 256 rows.
SELECT slot, epoch FROM penstock_slot WHERE owner = :id;
