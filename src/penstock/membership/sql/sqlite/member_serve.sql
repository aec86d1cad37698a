-- Say what a member takes part in; walks the primary key.
UPDATE penstock_member SET serves = :serves WHERE id = :id;
