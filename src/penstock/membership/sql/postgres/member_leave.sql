-- Remove a member; locks its row.
DELETE FROM penstock_member WHERE id = %(id)s;
