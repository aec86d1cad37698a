-- Remove a member; walks the primary key.
DELETE FROM penstock_member WHERE id = :id;
